import { faultText } from "./fault.ts";

/**
 * The command was understood and could not be done. The message says what is wrong and, behind a semicolon, what to do:
 * see {@link errorDocument}.
 */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure" as const;
}

/** The program does not know this command line. The message tells what would be right. */
export class UsageError extends Error {
  override readonly name = "UsageError" as const;
}

/** The configuration is wrong. Lists everything that is, not only the first fault. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError" as const;
  /** A sentence for each problem. */
  readonly lines: readonly string[];
  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

/** An error as `--json` shows it. */
export interface ErrorDocument {
  readonly code: "failed" | "usage" | "configuration" | "internal";
  /** The fault. */
  readonly message: string;
  /** The next step; null if the message names none. */
  readonly remedy: string | null;
}

/** The document of an error that a command ended with; `name` is the command's full name. */
export function errorDocument(error: unknown, name: string): ErrorDocument {
  if (error instanceof UsageError) {
    return { code: "usage", message: error.message, remedy: `Try '${name} --help'.` };
  }
  if (error instanceof ConfigurationError) {
    return { code: "configuration", message: error.message, remedy: null };
  }
  const isExpected = error instanceof CommandFailure;
  const text = isExpected ? error.message : faultText(error, {});
  const [message = "", ...remedy] = text.split("; ");
  return {
    code: isExpected ? "failed" : "internal",
    message,
    remedy: remedy.length === 0 ? null : remedy.join("; "),
  };
}

/** The program's exit codes (contract §8); 78 is EX_CONFIG of sysexits.h. */
export const EXIT = { done: 0, failed: 1, usage: 2, configuration: 78 } as const;

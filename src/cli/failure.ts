import { inspect } from "node:util";

import { isError, messageOf, remedyOf } from "../domain/error.ts";
import { closeName } from "../domain/text.ts";

/** The command was understood and could not be done. The message has the fault, then after a semicolon the remedy. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure" as const;
}

/** Ends a command that was understood and cannot be done. */
export function fail(message: string, cause?: unknown): never {
  throw new CommandFailure(message, cause === undefined ? {} : { cause });
}

/** The program does not know this command line. The message says what would be correct. */
export class UsageError extends Error {
  override readonly name = "UsageError" as const;
}

/** The configuration is wrong. Lists everything that is, not only the first fault. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError" as const;
  readonly lines: readonly string[];
  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

/** An error as `--json` shows it. */
export interface ErrorDocument {
  readonly code: "failed" | "usage" | "configuration" | "internal";
  readonly message: string;
  /** The next step; null if the message names none. */
  readonly remedy: string | null;
}

/** The end of a command that threw: the exit code, the document for `--json`, and the sentences for stderr. */
interface Failure {
  readonly exit: number;
  readonly document: ErrorDocument;
  readonly lines: readonly string[];
}

/** Returns what the program reports of an error; `name` is the command's full name. */
export function failureOf(error: unknown, name: string): Failure {
  if (error instanceof UsageError) {
    const document = {
      code: "usage",
      message: error.message,
      remedy: `Try '${name} --help'.`,
    } as const;
    return { exit: EXIT.usage, document, lines: [`${document.message}\n${document.remedy}`] };
  }
  if (error instanceof ConfigurationError || nameOf(error) === "TlsFileError") {
    const message = messageOf(error);
    const document = { code: "configuration", message, remedy: null } as const;
    const lines = error instanceof ConfigurationError ? error.lines : [message];
    return { exit: EXIT.configuration, document, lines };
  }
  const isExpected = isExpectedFailure(error);
  const text = isExpected ? messageOf(error) : `${messageOf(error)}; ${remedyOf(error)}`;
  const [message = "", ...rest] = text.split("; ");
  const remedy = rest.length === 0 ? null : rest.join("; ");
  return {
    exit: EXIT.failed,
    document: { code: isExpected ? "failed" : "internal", message, remedy },
    lines: [error instanceof CommandFailure ? text : withStack(text, error, process.env)],
  };
}

/** Errors of other rooms with a message for a user. By name, because a command loads their modules when it runs. */
const EXPECTED: ReadonlySet<string> = new Set([
  ...["CommandFailure", "DaemonRefusal", "DatabaseError", "InstanceLockError", "ListenError"],
  ...["ServiceError", "StoreError", "TlsFileError"],
]);

/** True for an error whose message is for a user. Others are faults of the program or the machine. */
export function isExpectedFailure(error: unknown): boolean {
  return EXPECTED.has(nameOf(error));
}

function nameOf(error: unknown): string {
  return isError(error) ? error.name : "";
}

/** The message and a remedy of an unexpected error, with its stack if POSTBACKD_LOG_LEVEL is `debug`. */
export function faultText(error: unknown, env: NodeJS.ProcessEnv): string {
  return withStack(`${messageOf(error)}; ${remedyOf(error)}`, error, env);
}

function withStack(text: string, error: unknown, env: NodeJS.ProcessEnv): string {
  return env["POSTBACKD_LOG_LEVEL"] === "debug" ? `${text}\n${inspect(error)}` : text;
}

/** The program's exit codes (cli.md); 78 is EX_CONFIG of sysexits.h. */
export const EXIT = { done: 0, failed: 1, usage: 2, configuration: 78 } as const;

/** The command of a group that an unknown word most likely stands for; null if none is close. */
export function meantCommand(word: string, names: readonly string[]): string | null {
  return names.find((name) => SYNONYMS[name]?.includes(word)) ?? closeName(word, names);
}

/** Words that other programs have for our commands. No count of letters finds them. */
const SYNONYMS: Readonly<Record<string, readonly string[]>> = {
  create: ["add", "make", "new"],
  database: ["migrate"],
  erase: ["delete", "remove", "rm"],
  list: ["ls", "ps"],
  redeliver: ["resend", "retry"],
  revoke: ["cancel", "delete", "remove", "rm"],
  show: ["get"],
  start: ["daemon", "run", "serve", "up"],
};

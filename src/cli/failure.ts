/** The command was understood and could not be done. The message is a sentence that tells why. */
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

/** The program's exit codes (contract §8); 78 is EX_CONFIG of sysexits.h. */
export const EXIT = { done: 0, failed: 1, usage: 2, configuration: 78 } as const;

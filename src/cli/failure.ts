/** The command was understood and could not be done. The message is a sentence that says why. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure" as const;
}

/** The command line is not one that the program knows. The message says what would be. */
export class UsageError extends Error {
  override readonly name = "UsageError" as const;
}

/** The configuration is wrong. Holds everything that is, not only the first thing. */
export class ConfigurationError extends Error {
  override readonly name = "ConfigurationError" as const;
  /** A sentence for each problem. */
  readonly lines: readonly string[];
  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

/** What the program exits with (contract §8); 78 is EX_CONFIG of sysexits.h. */
export const EXIT = { done: 0, failed: 1, usage: 2, configuration: 78 } as const;

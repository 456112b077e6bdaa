/** Facts of a log line. Never a key, a secret, a token or the query string of a webhook URL. */
export type LogFacts = Readonly<Record<string, unknown>>;

/** The levels of the lines that are kept. */
export const LOG_LINE_LEVELS = ["info", "warn", "error"] as const;

/** A line of the log, as people read it. */
export interface LogLine {
  readonly time: string;
  readonly level: (typeof LOG_LINE_LEVELS)[number];
  readonly message: string;
  /** `key=value …`, and below it the stack of an error, if there is one; shortened when it is long. */
  readonly facts: string;
}

/** Where the rings write what an operator should know; the program decides on form and level. */
export interface Logger {
  debug(facts: LogFacts, message: string): void;
  info(facts: LogFacts, message: string): void;
  warn(facts: LogFacts, message: string): void;
  error(facts: LogFacts, message: string): void;
}

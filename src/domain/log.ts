/** Facts beside a log line. Never a key, a secret, a token or the query string of a webhook URL. */
export type LogFacts = Readonly<Record<string, unknown>>;

/** A line of the log, as people read it. */
export interface LogLine {
  readonly time: string;
  readonly level: "info" | "warn" | "error";
  readonly message: string;
  /** `key=value …`, and below it the stack of an error, where there is one; cut where it is long. */
  readonly facts: string;
}

/** Where the rings write what an operator should know; the program decides on form and level. */
export interface Logger {
  debug(facts: LogFacts, message: string): void;
  info(facts: LogFacts, message: string): void;
  warn(facts: LogFacts, message: string): void;
  error(facts: LogFacts, message: string): void;
}

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

/** Writes nothing. */
export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** True for what a program may give as its logger. */
export function isLogger(value: unknown): value is Logger {
  if (typeof value !== "object" || value === null) return false;
  return Object.keys(SILENT).every((level) => typeof Reflect.get(value, level) === "function");
}

/**
 * A program's own logger, which cannot bring anything down: it reads what it is given, and something that a function has
 * thrown may throw again when it is read.
 */
export function guarded(logger: Logger): Logger {
  const at =
    (level: keyof Logger): Logger["info"] =>
    (facts, message) => {
      try {
        logger[level](facts, message);
      } catch {
        // Nobody is left to be told.
      }
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

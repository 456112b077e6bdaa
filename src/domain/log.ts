/** Facts of a log line. Never a key, a secret, a token or the query string of a webhook URL. */
export type LogFacts = Readonly<Record<string, unknown>>;

export const LOG_LINE_LEVELS = ["info", "warn", "error"] as const;

export interface LogLine {
  readonly time: string;
  readonly level: (typeof LOG_LINE_LEVELS)[number];
  readonly message: string;
  /** `key=value …`, and below it the stack of an error, if there is one; shortened when it is long. */
  readonly facts: string;
}

/** The log of all rooms for the operator; the program decides on form and level. */
export interface Logger {
  debug(facts: LogFacts, message: string): void;
  info(facts: LogFacts, message: string): void;
  warn(facts: LogFacts, message: string): void;
  error(facts: LogFacts, message: string): void;
}

export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** True for what a program may give as its logger. */
export function isLogger(value: unknown): value is Logger {
  if (typeof value !== "object" || value === null) return false;
  return Object.keys(SILENT).every((level) => typeof Reflect.get(value, level) === "function");
}

/** A program's own logger, which cannot bring anything down: what a function has thrown may throw when it is read. */
export function guarded(logger: Logger): Logger {
  const at =
    (level: keyof Logger): Logger["info"] =>
    (facts, message) => {
      try {
        logger[level](facts, message);
      } catch {
        // No reader is left.
      }
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export interface WorkProgress {
  /** Names the part by what is counted, such as `tasks` or `MiB copied`. */
  readonly part: string;
  readonly done: number;
  /** The number in all; null if it is not known. */
  readonly of: number | null;
}

/** Called repeatedly during long work; it returns immediately. */
export type TellProgress = (progress: WorkProgress) => void;

// A rate over a shorter time is only noise.
const RATED_MS_MIN = 1000;
const MINUTE_S = 60;

/** How far a part is, as one line shows it: `tasks: 120,000 of 1,000,000, 51,300/s, 17 s left`. */
export function progressText({ part, done, of }: WorkProgress, elapsedMs: number): string {
  const text = `${part}: ${shown(done)}${of === null ? "" : ` of ${shown(of)}`}`;
  if (elapsedMs < RATED_MS_MIN || done === 0) return text;
  const perSecond = (done * 1000) / elapsedMs;
  const rated = `${text}, ${rateText(perSecond)}`;
  return of !== null && done < of ? `${rated}, ${leftText((of - done) / perSecond)} left` : rated;
}

function shown(count: number): string {
  return Math.round(count).toLocaleString("en");
}

function rateText(perSecond: number): string {
  return perSecond < 1 ? `${shown(perSecond * MINUTE_S)}/min` : `${shown(perSecond)}/s`;
}

function leftText(seconds: number): string {
  if (seconds < 2 * MINUTE_S) return `${Math.ceil(seconds)} s`;
  return `${Math.ceil(seconds / MINUTE_S)} min`;
}

/** Returns a function that makes the line of progress, with the rate since the part began. */
export function progressTexts(now: () => number): (progress: WorkProgress) => string {
  let part = "";
  let begunAt = now();
  let toldAt = begunAt;
  return (progress) => {
    // A part begins with the last progress of the part before.
    if (progress.part !== part) begunAt = toldAt;
    part = progress.part;
    toldAt = now();
    return progressText(progress, toldAt - begunAt);
  };
}

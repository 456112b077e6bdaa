import { MINUTE_MS } from "../clock/duration.ts";
import { isJsonObject, toPlainNumber } from "../json/json.ts";
import { type Rule, rule } from "../rule.ts";
import { isPlainText } from "../text.ts";

/** The input and the result of a type's tasks. */
export interface TaskType {
  readonly input: unknown;
  readonly result: unknown;
}

/** Types by name, such as `{ resize: { input: { file: string }; result: { width: number } } }`. */
export type TaskTypes<Types> = { readonly [Name in keyof Types]: TaskType };

/** Any type, with any JSON. */
export type AnyTypes = Readonly<Record<string, TaskType>>;

export type TypeName<Types> = Extract<keyof Types, string>;

/** A task as a function gets it. It is the function's own copy: changes to it have no effect. */
export interface FunctionTask<Input = unknown> {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  /** The posted input, null when the client posted none. Numbers that a double cannot hold lose digits. */
  readonly input: Input;
}

/** Tells a running function of its end, and takes its progress. */
export interface FunctionContext {
  /**
   * Aborted when the task is cancelled, runs past its timeout (`signal.reason` is a `TimeoutError` then), or the daemon
   * stops. Nobody waits for the function after that, and nothing can end it from outside: it should end by itself.
   */
  readonly signal: AbortSignal;
  /** Reports the progress, from 0 to 1, with a note of at most 255 characters; anything else is ignored. */
  readonly progress: (progress: number, note?: string) => void;
}

/**
 * Computes a task's result: any value that `JSON.stringify` can write, or a promise of one; `undefined` becomes null.
 * An error that it throws fails the run: the client sees the error's message and name, and never its stack.
 */
export type TaskFunction<Input = unknown, Result = unknown> = (
  task: FunctionTask<Input>,
  context: FunctionContext,
) => Result | Promise<Result>;

/** The facts of a {@link TaskFailure} beside its message. */
export interface TaskFailureOptions {
  /** True runs the task again, false never does; without it the type's `retries` decide. */
  readonly retry?: boolean | undefined;
  /** Facts for the client, shown as `error.detail`. */
  readonly detail?: Readonly<Record<string, string | number | null>> | undefined;
}

/** Thrown by a worker's handler to fail its task, with a say in whether the task is run again. */
export class TaskFailure extends Error {
  override readonly name = "TaskFailure" as const;
  readonly retry: boolean | undefined;
  readonly detail: TaskFailureOptions["detail"];

  constructor(message: string, { retry, detail }: TaskFailureOptions = {}) {
    super(message);
    this.retry = retry;
    this.detail = detail;
  }
}

const FIRST_WAIT_MS = 1000;
const WAIT_MS_MAX = MINUTE_MS;

/** The sequel of a run that failed or timed out: another run at a time, or the end. */
export type RunDecision =
  | { readonly kind: "again"; readonly startAt: number }
  | { readonly kind: "final" };

/**
 * Decides whether a failed run is tried again (contract §6): `retries` times, 1 s after the first failure, with a wait
 * that doubles up to 60 s. Runs lost in a crash of the daemon are not failures and use up no retries.
 */
export function decideRun(facts: {
  readonly failuresBefore: number;
  readonly retries: number;
  readonly endedAt: number;
}): RunDecision {
  const { failuresBefore, retries, endedAt } = facts;
  if (failuresBefore >= retries) return { kind: "final" };
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** failuresBefore, WAIT_MS_MAX);
  return { kind: "again", startAt: endedAt + waitMs };
}

/**
 * Shares a claim among the accounts that wait for a type. They take turns, one task each, beginning with the account
 * after the one whose task was started last. A claim goes in rounds. In each round every account that may have more is
 * given the same share, by priority and then age, and the next round shares what the short ones leave over. Disabled
 * accounts have no turn: the reading of accounts sees to that, where any number of them can be passed over at once.
 */

/** An account's turn in a claim, and the tasks that it has been given so far. */
export interface Turn<Row> {
  readonly accountSeq: number;
  readonly rows: Row[];
  /** False once it was given less than its share. */
  mayHaveMore: boolean;
}

export function newTurn<Row>(accountSeq: number): Turn<Row> {
  return { accountSeq, rows: [], mayHaveMore: true };
}

/** How many tasks each account is given in a round; the last round may end before every account had its turn. */
export function shareOf(left: number, accounts: number): number {
  return Math.max(1, Math.floor(left / accounts));
}

/** The given tasks in the order of the turns: one of each account, then another of each, until none is left. */
export function inTurn<Row>(turns: readonly Turn<Row>[]): readonly Row[] {
  const rounds = Math.max(0, ...turns.map(({ rows }) => rows.length));
  return Array.from({ length: rounds }, (_, round) =>
    turns.flatMap(({ rows }) => rows.slice(round, round + 1)),
  ).flat();
}

/**
 * A claim of tasks ends with the one whose input makes all of them together this long, in characters. So much takes 5
 * ms of the main thread's time on its way from the writer's thread to a worker; 16 MiB took 75 ms (measured).
 */
export const CLAIM_INPUT_MAX: number = 1024 * 1024;

/** True for a claim that ends with the tasks that it has. */
export function isClaimFull({ inputLength }: { readonly inputLength: number }): boolean {
  return inputLength >= CLAIM_INPUT_MAX;
}

/** A program and its arguments: never a shell line, and nothing in it is expanded. */
export type CommandLine = readonly [program: string, ...args: string[]];

/** The progress of a run, as its worker or command reports it. It is only in memory, not worth a write. */
export interface TaskProgress {
  /** From 0 to 1. */
  readonly progress: number;
  readonly note: string | null;
}

interface WrittenProgress {
  readonly progress: number;
  readonly note?: string | null;
}

/** The most code points of a note. */
export const PROGRESS_NOTE_MAX = 255;

/** Reads `{"progress": 0.5, "note": "halfway"}`; null for anything else. Other members are ignored. */
export function parseProgress(value: unknown): TaskProgress | null {
  if (!isJsonObject(value)) return null;
  const progress = toPlainNumber(value["progress"]);
  const note = value["note"] ?? null;
  if (typeof progress !== "number" || !(progress >= 0 && progress <= 1)) return null;
  if (note !== null && !isPlainText(note, PROGRESS_NOTE_MAX)) return null;
  // `+ 0` makes the zero of a reported -0 a plain one.
  return { progress: progress + 0, note };
}

export const PROGRESS: Rule<TaskProgress, WrittenProgress> = rule({
  takes:
    `an object with progress, a number from 0 to 1, and optionally note, text of at most ${PROGRESS_NOTE_MAX} ` +
    "characters without control characters",
  hint: "PROGRESS",
  schema: { type: "object" },
  read: parseProgress,
});

/**
 * The place of a task in the trace of whoever posted it, as the W3C's recommendation Trace Context writes it. It is
 * passed on as it came: the daemon records no spans of its own.
 */
export interface Trace {
  readonly traceparent: string;
  /** Null where there is none. */
  readonly tracestate: string | null;
}

/** The length that the recommendation asks everybody to pass on; anything longer is not kept. */
export const TRACE_LENGTH_MAX = 512;

const MEMBERS_MAX = 32;

// §3.2.2. Later versions may have more fields behind these, and version ff is never one.
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|-[!-~]*$)/;
const FIRST_VERSION_LENGTH = 55;

// §3.3.1.3: a key, also with a tenant and a vendor, and a value of printable characters.
const MEMBER =
  /^(?:[a-z0-9][a-z0-9_\-*/]{0,240}@)?[a-z0-9][a-z0-9_\-*/]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/**
 * Reads the headers `traceparent` and `tracestate`, each with all its lines; null where there is no valid traceparent: a
 * broken trace is no reason to refuse a task. A tracestate that is not valid is left out alone.
 */
export function parseTrace(
  traceparents: readonly string[],
  tracestates: readonly string[],
): Trace | null {
  const [traceparent, ...others] = traceparents;
  if (traceparent === undefined || others.length > 0 || !isTraceparent(traceparent)) return null;
  return { traceparent, tracestate: parseTracestate(tracestates) };
}

function isTraceparent(text: string): boolean {
  if (text.length > TRACE_LENGTH_MAX || !TRACEPARENT.test(text)) return false;
  return !text.startsWith("00") || text.length === FIRST_VERSION_LENGTH;
}

function parseTracestate(lines: readonly string[]): string | null {
  const text = lines.join(",");
  if (text.length > TRACE_LENGTH_MAX) return null;
  // §3.3.1.1: empty members are allowed.
  const members = text.split(",").map((member) => member.replaceAll(/^[ \t]+|[ \t]+$/g, ""));
  const filled = members.filter((member) => member !== "");
  if (filled.length === 0 || filled.length > MEMBERS_MAX) return null;
  return filled.every((member) => MEMBER.test(member)) ? filled.join(",") : null;
}

export function traceText(trace: Trace | null): string | null {
  return trace === null ? null : JSON.stringify(trace);
}

/** The headers of a stored trace, by their names in lower case; none where there is none, or it cannot be read. */
export function traceHeaders(text: string | null): Readonly<Record<string, string>> {
  const trace = readTrace(text);
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return tracestate === null ? { traceparent } : { traceparent, tracestate };
}

/** A stored trace, judged as when it was posted: what is in the file goes into headers and environments. */
export function readTrace(text: string | null): Trace | null {
  if (text === null) return null;
  try {
    const { traceparent, tracestate }: Record<string, unknown> = Object(JSON.parse(text));
    return typeof traceparent === "string"
      ? parseTrace([traceparent], typeof tracestate === "string" ? [tracestate] : [])
      : null;
  } catch {
    // Somebody else has written it.
    return null;
  }
}

import type { Clock } from "../domain/clock/clock.ts";
import { setImmediate } from "../domain/clock/timers.ts";
import type { TaskProgress } from "../domain/task/run.ts";
import type { Trace } from "../domain/task/trace.ts";

/** `inputText` is JSON text as posted, `null` without an input. It is never parsed, so numbers keep every digit. */
export interface RunRequest {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly inputText: string;
  /** The trace that the task was posted in; null for none. */
  readonly trace: Trace | null;
}

/** The end of one run. A failed run is a value, not an exception. */
export type RunOutcome =
  /** `resultText` is valid JSON text, at most as deep and as long as the limits allow. */
  | { readonly kind: "completed"; readonly resultText: string }
  /** Becomes 50010; `message` is one sentence for the client, `detail` (JSON-safe) says how it failed. */
  | {
      readonly kind: "failed";
      readonly message: string;
      readonly detail: RunFailureDetail;
      /** A signal that the runner did not send has ended it: see {@link isEndedBySupervisor}. */
      readonly isKilled?: true;
      /** Whether a worker's task is to be run again; as its type says unless given. */
      readonly retry?: boolean;
    }
  /** Ran past its timeout; becomes 50401. */
  | { readonly kind: "timed_out"; readonly message: string; readonly detail: RunFailureDetail }
  /** Stopped by `signal`, or lost as in a crash. It may run again; with `isUnstarted` the run does not count. */
  | { readonly kind: "aborted"; readonly isUnstarted?: true };

// A signal that came before the run ended: one turn takes it from the system, the next hands it over.
const TURNS = 3;

/**
 * Resolves to true for a run that a supervisor has ended together with this process: systemd sends SIGTERM to commands as
 * well where `KillMode` is `control-group`, and to this process first. Such a run is like an aborted one. Looks whether
 * this process is stopping only when the signal it got has arrived.
 */
export async function isEndedBySupervisor(
  outcome: RunOutcome,
  isStopping: () => boolean,
): Promise<boolean> {
  if (outcome.kind !== "failed" || outcome.isKilled !== true) return false;
  for (let turns = 0; turns < TURNS && !isStopping(); turns++)
    await new Promise((resolve) => setImmediate(resolve));
  return isStopping();
}

/** Facts of a failed run, shown to the client as `error.detail`. */
export type RunFailureDetail = Readonly<Record<string, string | number | null>>;

/** Runs tasks of one type. The caller keeps the number of concurrent runs within `concurrency`. */
export interface Runner {
  readonly concurrency: number;
  /** Resolves when nothing of the run is left (no process, no timer). A rejection is a bug. */
  run(request: RunRequest, options: RunOptions): Promise<RunOutcome>;
}

export interface RunBounds {
  readonly concurrency: number;
  /** From the start of a run to its end, waits and repetitions included. */
  readonly timeoutMs: number;
  /** The limit of what a run puts out, and of the result as JSON text. */
  readonly resultBytesMax: number;
  readonly clock: Clock;
}

/** The connection between a run and its caller while it lasts. */
export interface RunOptions {
  /** Aborted when the run is to stop: its task was cancelled, or the daemon ends. */
  readonly signal: AbortSignal;
  /** May be called with the progress of the run as often as it likes; nothing is written for it. */
  readonly report: (progress: TaskProgress) => void;
}

/** The task as one line of JSON (runners.md). The input is spliced in as text, so that numbers keep every digit. */
export function toRunInput({ id, type, tag, marketplace, inputText }: RunRequest): string {
  const head = JSON.stringify({ id, type, tag, marketplace }).slice(0, -1);
  // A line break in JSON text can only be white space between tokens: inside a string it would be an escape.
  return `${head},"input":${inputText.replace(/[\r\n]+/g, " ")}}`;
}

/** The result of a run as JSON text, or why it has none; `reason` completes "its output …", "its result …". */
export type RunResult =
  | { readonly kind: "result"; readonly resultText: string }
  | { readonly kind: "fault"; readonly reason: string };

/** Accepts JSON text as the result unless it is over `bytesMax` bytes. */
export function toRunResult(resultText: string, bytesMax: number): RunResult {
  // A character takes at least one byte, so a text this long need not be counted.
  const isTooLong = resultText.length > bytesMax || Buffer.byteLength(resultText) > bytesMax;
  if (!isTooLong) return { kind: "result", resultText };
  return { kind: "fault", reason: `is over ${bytesMax} bytes, the limit of a result` };
}

/** The built-in runner whose result is the input, character by character (runners.md). */
export function createEchoRunner(options: { readonly concurrency: number }): Runner {
  return {
    concurrency: options.concurrency,
    run: async (request, { signal }) =>
      signal.aborted ? { kind: "aborted" } : { kind: "completed", resultText: request.inputText },
  };
}

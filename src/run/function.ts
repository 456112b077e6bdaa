import { isDeeperThan } from "../domain/json/json.ts";
import { JSON_DEPTH_MAX } from "../domain/json/json.ts";
import type {
  FunctionContext,
  FunctionTask,
  TaskFailure,
  TaskFunction,
} from "../domain/task/function.ts";
import { parseProgress } from "../domain/task/run.ts";
import {
  type RunBounds,
  type RunFailureDetail,
  type RunOptions,
  type RunOutcome,
  type RunRequest,
  type RunResult,
  type Runner,
  toRunResult,
} from "./runner.ts";

interface FunctionRunnerOptions extends RunBounds {
  readonly run: TaskFunction;
  /** Called with everything that a function throws while its run lasts, stack and all: for a log, never for clients. */
  readonly threw?: (thrown: unknown, request: RunRequest) => void;
}

/**
 * The runner of functions (runners.md, embedded use). Everything that a function does is an outcome: its value becomes
 * the result, see {@link toFunctionResult}; an error or a rejection becomes a failed run.
 *
 * A function cannot be ended from outside. At a timeout or an abort its signal is aborted, and the run ends
 * immediately: its slot is free. Later results, errors and progress of the function are dropped. So here, and only
 * here, a part of a run may be left when `run` has resolved: a function that ignores its signal. A slot that is kept
 * until the function settles would be lost forever to a promise that never does.
 */
export function createFunctionRunner(options: FunctionRunnerOptions): Runner {
  return {
    concurrency: options.concurrency,
    run(request, runOptions) {
      if (runOptions.signal.aborted) return Promise.resolve({ kind: "aborted" });
      return runToEnd(request, { ...options, ...runOptions });
    },
  };
}

function runToEnd(
  request: RunRequest,
  options: FunctionRunnerOptions & RunOptions,
): Promise<RunOutcome> {
  const { signal, clock, timeoutMs } = options;
  const abort = new AbortController();
  return new Promise((resolve) => {
    let isOver = false;
    const end = (outcome: RunOutcome): void => {
      if (isOver) return;
      isOver = true;
      timeout.cancel();
      signal.removeEventListener("abort", onAbort);
      resolve(outcome);
    };
    // The outcome comes first: the function may react to its signal immediately.
    const onAbort = (): void => {
      end({ kind: "aborted" });
      abort.abort(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    const timeout = clock.setTimer(timeoutMs, () => {
      const message = `The function ran past its timeout of ${timeoutMs / 1000} s.`;
      end({ kind: "timed_out", message, detail: {} });
      abort.abort(new DOMException(message, "TimeoutError"));
    });
    const progress = (...report: readonly unknown[]): void => {
      const [value, note] = report;
      const parsed = isOver ? null : parseProgress({ progress: value, note });
      if (parsed !== null) options.report(parsed);
    };
    void call(request, { run: options.run, context: { signal: abort.signal, progress } }).then(
      (value) => {
        if (!isOver) end(toOutcome(value, options.resultBytesMax));
      },
      (thrown: unknown) => {
        if (isOver) return;
        options.threw?.(thrown, request);
        end(toFailure(thrown));
      },
    );
  });
}

// Async, so that an error before the function's first await rejects like a later one.
async function call(
  { id, type, tag, marketplace, inputText }: RunRequest,
  { run, context }: { readonly run: TaskFunction; readonly context: FunctionContext },
): Promise<unknown> {
  const task: FunctionTask = { id, type, tag, marketplace, input: JSON.parse(inputText) };
  return run(task, context);
}

function toOutcome(value: unknown, resultBytesMax: number): RunOutcome {
  const result = toFunctionResult(value, resultBytesMax);
  if (result.kind === "result") return { kind: "completed", resultText: result.resultText };
  return { kind: "failed", message: `The function's result ${result.reason}.`, detail: {} };
}

function toFailure(thrown: unknown): RunOutcome {
  const name = thrownName(thrown);
  const message = thrownMessage(thrown) ?? "The function threw something without a message.";
  const detail = name === null ? {} : { name };
  // By its name: each module of the package has that class for itself.
  if (name !== FAILURE_NAME) return { kind: "failed", message, detail };
  const { retry, detail: said } = saidIn(thrown);
  const failed = { kind: "failed", message, detail: detailOf(said) } as const;
  return typeof retry === "boolean" ? { ...failed, retry } : failed;
}

const FAILURE_NAME: TaskFailure["name"] = "TaskFailure";

// A thrown value may throw again when it is read.
function saidIn(thrown: unknown): { readonly retry?: unknown; readonly detail?: unknown } {
  try {
    return {
      retry: Reflect.get(Object(thrown), "retry"),
      detail: Reflect.get(Object(thrown), "detail"),
    };
  } catch {
    return {};
  }
}

const DETAIL_BYTES_MAX = 64 * 1024;

// A program without types may give anything: what JSON cannot hold, and what is too long, is left out.
function detailOf(detail: unknown = {}): RunFailureDetail {
  const text = toFunctionResult(detail, DETAIL_BYTES_MAX);
  return text.kind === "result" ? (JSON.parse(text.resultText) as RunFailureDetail) : {};
}

/**
 * Writes a function's return value as JSON, as `JSON.stringify` does: `toJSON` is asked, `undefined` is null, NaN and
 * infinities are null, and `JSON.rawJSON` keeps its digits. Refuses values that JSON cannot hold, nesting deeper than
 * is allowed, and text over `bytesMax` bytes.
 */
function toFunctionResult(value: unknown, bytesMax: number): RunResult {
  if (value === undefined) return { kind: "result", resultText: "null" };
  const text = stringify(value);
  if (typeof text === "object") return text;
  const result = toRunResult(text, bytesMax);
  if (result.kind === "fault" || !isDeeperThan(text, JSON_DEPTH_MAX)) return result;
  return { kind: "fault", reason: `is nested deeper than ${JSON_DEPTH_MAX} levels` };
}

function stringify(value: unknown): string | Extract<RunResult, { kind: "fault" }> {
  try {
    // Its type leaves out that a function, a symbol, or a toJSON that returns nothing has no JSON at all.
    const text: unknown = JSON.stringify(value);
    if (typeof text === "string") return text;
    return { kind: "fault", reason: `has no form in JSON (a ${typeof value})` };
  } catch (error) {
    // The value has a cycle, a BigInt, a toJSON or a getter that throws, or more levels than the stack.
    const [reason = ""] = (thrownMessage(error) ?? "it holds something that throws").split("\n", 1);
    return { kind: "fault", reason: `cannot be written as JSON: ${reason}` };
  }
}

/** The most UTF-16 units of a message; a longer one is cut and ends with "…". */
export const MESSAGE_LENGTH_MAX = 1000;

/** The text of a thrown value, well-formed and cut; null if it has none. Never throws. */
function thrownMessage(thrown: unknown): string | null {
  const read = (): unknown => (isObject(thrown) && "message" in thrown ? thrown.message : thrown);
  return readText(read, MESSAGE_LENGTH_MAX);
}

/** The name of a thrown error, such as `TypeError`; null where it has none that can be shown. Never throws. */
function thrownName(thrown: unknown): string | null {
  const read = (): unknown => (isObject(thrown) && "name" in thrown ? thrown.name : null);
  return readText(read, NAME_LENGTH_MAX);
}

const NAME_LENGTH_MAX = 100;

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

// A getter, or the trap of a proxy, may throw as well.
function readText(read: () => unknown, lengthMax: number): string | null {
  try {
    const value = read();
    return typeof value === "string" && value.trim() !== "" ? cut(value, lengthMax) : null;
  } catch {
    return null;
  }
}

function cut(text: string, lengthMax: number): string {
  if (text.length <= lengthMax) return text.toWellFormed();
  // A surrogate pair that the limit cuts in two is left out.
  return `${text.slice(0, lengthMax - 1).replace(/[\ud800-\udbff]$/, "")}…`.toWellFormed();
}

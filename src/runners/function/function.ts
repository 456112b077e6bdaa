import type { Clock } from "../../domain/clock/clock.ts";
import { parseProgress } from "../../domain/task/progress.ts";
import type {
  FunctionContext,
  FunctionTask,
  TaskFunction,
} from "../../domain/task/task-function.ts";
import type { Runner, RunOptions, RunOutcome, RunRequest } from "../runner.ts";
import { thrownMessage, thrownName, toFunctionResult } from "./function-result.ts";

/** A function of the program that embeds the daemon, and what bounds its runs. */
export interface FunctionRunnerOptions {
  readonly run: TaskFunction;
  readonly timeoutMs: number;
  readonly concurrency: number;
  /** The limit of a result as JSON text. */
  readonly resultBytesMax: number;
  readonly clock: Clock;
  /** Told what a function threw, stack and all, while its run lasted: for a log, never for clients. */
  readonly threw?: (thrown: unknown, request: RunRequest) => void;
}

/**
 * The runner of functions (contract §6, embedded use). Whatever a function does is an outcome: its value the result,
 * see {@link toFunctionResult}; what it throws, or rejects with, a failed run.
 *
 * A function cannot be ended from outside. At a timeout or an abort its signal is aborted and the run ends at once, as
 * far as the daemon is concerned: its place is free, and what the function still returns, throws or reports is dropped.
 * So here, and here alone, something of a run may be left when `run` has resolved: a function that ignores its signal.
 * A place kept until it settles would be lost for ever to a promise that never does.
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
    // The outcome first: the function may answer its signal at once.
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
        if (!isOver) end(toOutcome(value, options));
      },
      (thrown: unknown) => {
        if (isOver) return;
        options.threw?.(thrown, request);
        end(toFailure(thrown));
      },
    );
  });
}

// Async, so that what the function throws before its first await rejects like what it throws later.
async function call(
  { id, type, tag, marketplace, inputText }: RunRequest,
  { run, context }: { readonly run: TaskFunction; readonly context: FunctionContext },
): Promise<unknown> {
  const task: FunctionTask = { id, type, tag, marketplace, input: JSON.parse(inputText) };
  return run(task, context);
}

function toOutcome(
  value: unknown,
  { resultBytesMax }: Pick<FunctionRunnerOptions, "resultBytesMax">,
): RunOutcome {
  const result = toFunctionResult(value, { bytesMax: resultBytesMax });
  if (result.kind === "result") return { kind: "completed", resultText: result.resultText };
  return { kind: "failed", message: `The function's result ${result.reason}.`, detail: {} };
}

function toFailure(thrown: unknown): RunOutcome {
  const name = thrownName(thrown);
  return {
    kind: "failed",
    message: thrownMessage(thrown) ?? "The function threw something without a message.",
    detail: name === null ? {} : { name },
  };
}

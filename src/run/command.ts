import { constants } from "node:os";

import type { CommandLine } from "../domain/task/run.ts";
import { parseCommandOutput, readBounded, readProgress, readTail } from "./command-output.ts";
import {
  type ProcessExit,
  type ProcessGroup,
  PROGRESS_FD,
  startProcessGroup,
} from "./process-group.ts";
import { RUN_OF, runMark } from "./processes.ts";
import {
  commandEnvironment,
  type CommandPlace,
  commandProblem,
  type Environment,
  toEnvPairs,
} from "./program.ts";
import {
  type RunBounds,
  type RunOptions,
  type RunOutcome,
  type RunRequest,
  type Runner,
  toRunInput,
} from "./runner.ts";

export interface CommandRunnerOptions extends RunBounds {
  readonly command: CommandLine;
  /** Variables on top of the daemon's, see {@link commandEnvironment}. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The owner of the processes, for `endOrphans` after this process was killed; `endOrphans` says what it may be. */
  readonly owner: string;
}

/** How much of the end of stderr a failed run shows (runners.md). */
const STDERR_TAIL_BYTES = 4096;

/**
 * The runner of `command` types (runners.md): one process per task, without a shell, in a process group of its own.
 * stdin holds one line of JSON, then ends; a program that does not read it loses nothing. Exit code 0 makes stdout
 * the result, see {@link parseCommandOutput}. A timeout, an abort or too much output ends the group: SIGTERM, then
 * SIGKILL. The exit of the program itself ends it too: nothing that it left running in its group outlives the run.
 * Descriptors 0 to 3 are sockets, and none of the daemon's own is inherited; on 3 the command may report its
 * progress, see {@link readProgress}. A program that opens `/dev/stdin` by name instead of reading descriptor 0 gets
 * ENXIO.
 */
export function createCommandRunner(options: CommandRunnerOptions): Runner {
  const env = runnerEnvironment(options);
  // Made once, so that a run costs next to nothing beyond the system's own price of a process.
  const commonPairs = toEnvPairs(env);
  const { command, cwd, clock } = options;
  return {
    concurrency: options.concurrency,
    async run(request, { signal, report }) {
      if (signal.aborted) return { kind: "aborted" };
      const envPairs = [...commonPairs, ...requestPairs(request)];
      const start = startProcessGroup({ command, cwd, envPairs, clock });
      if (start.kind === "not_started") {
        return startFailure(start.errorCode, { command, place: { cwd, env } });
      }
      return runToEnd(start.group, { request, signal, report, ...options });
    },
  };
}

const TASK_ID = "POSTBACKD_TASK_ID";
// As OpenTelemetry's libraries read them in a process of theirs.
const TRACEPARENT = "TRACEPARENT";
const TRACESTATE = "TRACESTATE";

function requestPairs({ id, trace }: RunRequest): readonly string[] {
  const pairs = [`${TASK_ID}=${id}`];
  if (trace !== null) pairs.push(`${TRACEPARENT}=${trace.traceparent}`);
  if (trace?.tracestate) pairs.push(`${TRACESTATE}=${trace.tracestate}`);
  return pairs;
}

// The runner's own names come last: a mark that the operator could set would prove nothing.
function runnerEnvironment({ env, owner }: CommandRunnerOptions): Environment {
  return {
    ...commandEnvironment(process.env, env),
    POSTBACKD_PROGRESS_FD: String(PROGRESS_FD),
    [RUN_OF]: runMark(owner) ?? undefined,
    // Each run sets its own.
    [TASK_ID]: undefined,
    [TRACEPARENT]: undefined,
    [TRACESTATE]: undefined,
  };
}

/** Why the daemon, and not the command, ended a run. The first reason counts. */
type StopReason = "aborted" | "timed_out" | "output_too_long" | "output_unreadable";

async function runToEnd(
  group: ProcessGroup,
  options: CommandRunnerOptions & RunOptions & { readonly request: RunRequest },
): Promise<RunOutcome> {
  const { signal, resultBytesMax } = options;
  const { stdin, progress } = group.streams;
  let stopReason: StopReason | null = null;
  const stopFor = (reason: StopReason): void => {
    stopReason ??= reason;
    group.stop();
  };
  const stdout = readBounded(group.streams.stdout, {
    bytesMax: resultBytesMax,
    onOverflow: () => stopFor("output_too_long"),
    onError: () => stopFor("output_unreadable"),
  });
  const stderr = readTail(group.streams.stderr, STDERR_TAIL_BYTES);
  readProgress(progress, options.report);
  const onAbort = (): void => stopFor("aborted");
  signal.addEventListener("abort", onAbort, { once: true });
  const timeout = options.clock.setTimer(options.timeoutMs, () => stopFor("timed_out"));
  // A program may exit without reading its input (EPIPE, ECONNRESET); its exit code decides.
  stdin.on("error", () => {});
  stdin.end(`${toRunInput(options.request)}\n`);

  await group.exited;
  // The program's own work is done: neither can change its result any more.
  timeout.cancel();
  signal.removeEventListener("abort", onAbort);
  const exit = await group.end();
  const ended = { stopReason, exit, stdout: stdout.bytes(), stderr: stderr.text() };
  return decideOutcome(ended, options);
}

interface EndedRun {
  readonly stopReason: StopReason | null;
  readonly exit: ProcessExit;
  readonly stdout: Buffer;
  readonly stderr: string;
}

function decideOutcome(
  { stopReason, exit, stdout, stderr }: EndedRun,
  { resultBytesMax, timeoutMs }: CommandRunnerOptions,
): RunOutcome {
  const detail = { exit_code: exit.code, signal: exit.signal, stderr };
  const failed = (message: string): RunOutcome => ({ kind: "failed", message, detail });
  switch (stopReason) {
    case "aborted":
      return { kind: "aborted" };
    case "timed_out": {
      const message = `The command ran past its timeout of ${timeoutMs / 1000} s and was stopped.`;
      return { kind: "timed_out", message, detail };
    }
    case "output_too_long": {
      const limit = `${resultBytesMax} bytes to stdout, the limit of a result`;
      return failed(`The command wrote more than ${limit}, and was stopped.`);
    }
    case "output_unreadable":
      return failed("The command's output could not be read.");
    case null:
  }
  if (exit.code !== 0) {
    const how =
      exit.signal === null ? `exited with code ${exit.code}` : `was ended by ${exit.signal}`;
    const message = `The command ${how}.`;
    return { kind: "failed", message, detail, ...(isKilled(exit) && { isKilled: true }) };
  }
  const result = parseCommandOutput(stdout, resultBytesMax);
  if (result.kind === "result") return { kind: "completed", resultText: result.resultText };
  return failed(`The command's output ${result.reason}.`);
}

// The signals by which supervisors end a service.
const ENDING_SIGNALS = ["SIGHUP", "SIGINT", "SIGTERM", "SIGKILL"] as const;

/** A shell whose last program was ended by a signal exits with 128 and its number. */
function isKilled({ signal, code }: ProcessExit): boolean {
  return ENDING_SIGNALS.some((name) => signal === name || code === 128 + constants.signals[name]);
}

async function startFailure(
  errorCode: string,
  options: { readonly command: CommandLine; readonly place: CommandPlace },
): Promise<RunOutcome> {
  const problem = await commandProblem(options.command, options.place);
  return {
    kind: "failed",
    message: problem ?? unseenProblem(errorCode, options.command[0]),
    detail: { error_code: errorCode },
  };
}

function unseenProblem(errorCode: string, program: string): string {
  const problem = `The program '${program}' could not be started`;
  // The file is there and executable, yet the system reports none: it means the interpreter of the file.
  if (errorCode === "ENOENT") {
    return `${problem}: the interpreter or loader it names does not exist.`;
  }
  return `${problem}: ${errorCode}.`;
}

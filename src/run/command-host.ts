import { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";

import { backoffMs } from "../deliver/service-retry.ts";
import { systemClock, wait } from "../domain/clock/clock.ts";
import { nextTick } from "../domain/clock/timers.ts";
import { codeOf } from "../domain/error.ts";
import { isLastLoss, LEASE_LOSSES_MAX } from "../domain/lease/lease.ts";
import type { CommandLine } from "../domain/task/run.ts";
import { spawnInto } from "../node-internals.ts";
import {
  type CommandPlan,
  isMessage,
  lineTaker,
  type MessageFromHost,
  type MessageToHost,
  toLine,
} from "./command-host-message.ts";
import { endOrphans, RUN_OF, runMark } from "./processes.ts";
import { commandEnvironment, toEnvPairs } from "./program.ts";
import type { RunOptions, RunOutcome, Runner, RunRequest } from "./runner.ts";

export interface CommandHostOptions {
  /** The command line that starts `command-host-main.ts`. */
  readonly command: CommandLine;
  readonly owner: string;
  /** Called when the host ended by itself: `runs` were lost, and `processes` that it left running were ended. */
  readonly lost?: (facts: { readonly runs: number; readonly processes: number }) => void;
  /** Called after each failed start of the host. `reason` is the system's error, an exit code or a signal. */
  readonly notStarted?: (facts: { readonly reason: string; readonly retry_ms: number }) => void;
  /** How long after its timeout a run must have ended. Beyond that the host counts as hung and is killed; 70 s. */
  readonly overdueMs?: number;
}

// The time that a run may take to end beyond its timeout, and a minute for a busy machine.
const OVERDUE_MS = 70_000;

interface PendingRun {
  readonly taskId: string;
  readonly resolve: (outcome: RunOutcome) => void;
  readonly report: RunOptions["report"];
}

const LOSSES_KNOWN_MAX = 10_000;

const START_WAIT_MS_MAX = 30_000;

const UNSTARTED: RunOutcome = { kind: "aborted", isUnstarted: true };

const LOST: RunOutcome = {
  kind: "failed",
  message: `The process that runs commands ended unexpectedly ${LEASE_LOSSES_MAX} times while it ran this task.`,
  detail: {},
};

/**
 * Runs commands in a small process, the host, which starts with the first run. Node.js starts a process by copying
 * its own page tables, at some 20 µs for each MB of memory, on the thread that serves requests: a daemon of 150 MB
 * spends 2.3 to 3.3 ms of its own on each command, with a host 0.2 to 0.6 ms, and 32 commands at once reach 88 % of a
 * bare loop's rate (2026-11-21).
 *
 * The host and all commands end with the daemon, however it ends. A host may end by itself, or hang and be killed for
 * it (a command may stop it: both belong to the same user). Both affect its runs like a crash of the daemon: the runs
 * end as aborted, their remaining processes are ended first, and the next run starts another host. A task that has lost
 * five hosts fails: most likely it ends them.
 *
 * A host that ends before it reports its start has run no command, so its runs come back as unstarted and do not count
 * as lost. The next start waits 250 ms, doubling to 30 s. Each run waits for one start only: its task goes back to the
 * queue after a failure, so another node of a cluster can claim the task.
 */
export class CommandHost {
  readonly #options: CommandHostOptions;
  readonly #runs = new Map<number, PendingRun>();
  /** How often a task has lost its host, by the task's id. */
  readonly #losses = new Map<string, number>();
  #child: ChildProcess | null = null;
  /** Settles when nothing is left of the previous host. */
  #cleared: Promise<void> = Promise.resolve();
  #lastRun = 0;
  /** Failed starts since the last host that started. */
  #failedStarts = 0;
  /** Monotonic. */
  #nextStartAt = 0;

  constructor(options: CommandHostOptions) {
    this.#options = options;
  }

  /** Like `createCommandRunner` on the machine's clock. */
  createRunner(plan: Omit<CommandPlan, "owner">): Runner {
    const { owner } = this.#options;
    const { command, timeoutMs, concurrency, env, cwd, resultBytesMax } = plan;
    const all = { command, timeoutMs, concurrency, env, cwd, resultBytesMax, owner };
    return { concurrency, run: (request, options) => this.#run({ plan: all, request }, options) };
  }

  /** Ends the host and all runs in it. The end of this process does the same. */
  close(): void {
    this.#child?.stdin?.destroy();
  }

  async #run(
    { plan, request }: { readonly plan: CommandPlan; readonly request: RunRequest },
    { signal, report }: RunOptions,
  ): Promise<RunOutcome> {
    const { overdueMs = OVERDUE_MS } = this.#options;
    await this.#cleared;
    const failedStarts = this.#failedStarts;
    const waitMs = this.#nextStartAt - systemClock.monotonic();
    if (failedStarts > 0 && waitMs > 0) await wait(waitMs, { clock: systemClock, signal });
    if (signal.aborted) return { kind: "aborted" };
    // Another run that waited for the same start has tried it.
    if (this.#failedStarts > failedStarts) return UNSTARTED;
    const run = ++this.#lastRun;
    const abort = (): void => this.#tell({ kind: "abort", run });
    signal.addEventListener("abort", abort, { once: true });
    // A host that hangs does not keep time itself.
    const kill = (): void => void this.#child?.kill("SIGKILL");
    const overdue = systemClock.setTimer(plan.timeoutMs + overdueMs, kill);
    try {
      return await new Promise((resolve) => {
        this.#runs.set(run, { taskId: request.id, resolve, report });
        this.#child ??= this.#start();
        this.#tell({ kind: "run", run, plan, request });
      });
    } finally {
      overdue.cancel();
      signal.removeEventListener("abort", abort);
    }
  }

  #tell(message: MessageToHost): void {
    this.#child?.stdin?.write(toLine(message));
  }

  #start(): ChildProcess {
    const { command, owner } = this.#options;
    const child = new ChildProcess();
    let hasStarted = false;
    const onEnd = (reason: string): void => {
      if (this.#child !== child) return;
      this.#child = null;
      if (hasStarted) this.#lost();
      else this.#notStarted(reason);
    };
    child
      .once("error", (error) => onEnd(codeOf(error) ?? error.message))
      .once("close", (code, signal) => onEnd(signal ?? `exit code ${code}`));
    // Commands can read the environment of their host.
    const env = commandEnvironment(process.env, { [RUN_OF]: runMark(owner) ?? undefined });
    // Commands name their own folders, so the host needs none, and this process's own one may have been removed.
    const cwd = existsSync(process.cwd()) ? process.cwd() : "/";
    const place = { cwd, envPairs: toEnvPairs(env) };
    const errorCode = spawnInto(child, { ...place, command, stdio: ["pipe", "pipe", "inherit"] });
    // Node emits the event for some errors only.
    if (errorCode !== null) nextTick(onEnd, errorCode);
    child.stdin?.on("error", () => {});
    // Every message was written by the host's half of this program.
    const take = lineTaker((line) => {
      if (!isMessage(line)) return;
      const message = JSON.parse(line) as MessageFromHost;
      if (message.kind !== "started") return this.#take(message);
      hasStarted = true;
      this.#failedStarts = 0;
    });
    child.stdout?.on("data", take).on("error", () => {});
    return child;
  }

  #take(message: Exclude<MessageFromHost, { kind: "started" }>): void {
    const held = this.#runs.get(message.run);
    if (message.kind === "progress") {
      held?.report(message.progress);
      return;
    }
    this.#runs.delete(message.run);
    if (held === undefined) return;
    this.#losses.delete(held.taskId);
    held.resolve(message.outcome);
  }

  #lost(): void {
    const lost = this.#takeRuns();
    this.#cleared = endOrphans(this.#options).then(({ ended: processes }) => {
      if (lost.length > 0) this.#options.lost?.({ runs: lost.length, processes });
      for (const { taskId, resolve } of lost) resolve(this.#lose(taskId));
    });
  }

  #notStarted(reason: string): void {
    this.#failedStarts++;
    const waits = { waitMsMax: START_WAIT_MS_MAX, random: Math.random() };
    const waitMs = Math.ceil(backoffMs(this.#failedStarts, waits));
    this.#nextStartAt = systemClock.monotonic() + waitMs;
    const runs = this.#takeRuns();
    if (runs.length > 0) this.#options.notStarted?.({ reason, retry_ms: waitMs });
    for (const { resolve } of runs) resolve(UNSTARTED);
  }

  #takeRuns(): readonly PendingRun[] {
    const runs = [...this.#runs.values()];
    this.#runs.clear();
    return runs;
  }

  // Other tasks lose the host too, and have most likely ended before they lose the fifth.
  #lose(taskId: string): RunOutcome {
    const lossesBefore = this.#losses.get(taskId) ?? 0;
    this.#losses.delete(taskId);
    if (isLastLoss(lossesBefore)) return LOST;
    this.#losses.set(taskId, lossesBefore + 1);
    const [oldest] = this.#losses.keys();
    // Some tasks are cancelled before they run again.
    if (this.#losses.size > LOSSES_KNOWN_MAX && oldest !== undefined) this.#losses.delete(oldest);
    return { kind: "aborted" };
  }
}

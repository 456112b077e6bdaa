import { ChildProcess } from "node:child_process";
import { Readable, type Writable } from "node:stream";
import { setImmediate } from "node:timers/promises";

import type { Clock, Timer } from "../../domain/clock/clock.ts";
import { wait } from "../../domain/clock/wait.ts";
import type { CommandLine } from "../../domain/command-line.ts";
import { hasRunningMember } from "./process-table.ts";
import { errorCodeOf, spawnInto } from "./spawn.ts";

/** How the first process of a group ended: by itself with a code, or by a signal. */
export type ProcessExit =
  | { readonly code: number; readonly signal: null }
  | { readonly code: null; readonly signal: string };

/** What a process group is started with. */
export interface ProcessGroupOptions {
  readonly command: CommandLine;
  readonly cwd: string;
  /** The whole environment, `NAME=value` each. */
  readonly envPairs: readonly string[];
  /** How long after SIGTERM whatever is left gets SIGKILL. */
  readonly killAfterMs: number;
  readonly clock: Clock;
}

/** A started group, or the system's name for what kept it from starting (`ENOENT`, `EMFILE`, …). */
export type ProcessGroupStart =
  | { readonly kind: "started"; readonly group: ProcessGroup }
  | { readonly kind: "not_started"; readonly errorCode: string };

/**
 * The descriptor on which a command may say how far it is: open for every command, beside 0, 1 and 2.
 * It costs 10 µs of the daemon's time per process, and 0.6 % of the rate at which `true` can be started
 * (40 pairs of 150 starts each, 2026-11-21).
 */
export const PROGRESS_FD = 3;

/** Starts `command` without a shell as the first process of a process group of its own. */
export function startProcessGroup(options: ProcessGroupOptions): ProcessGroupStart {
  const child = new ChildProcess();
  // Without a listener the event would end the daemon. What it says is known by then.
  child.on("error", () => {});
  const errorCode = spawnInto(child, { ...options, stdio: ["pipe", "pipe", "pipe", "pipe"] });
  // There are none when the system refused early.
  const streams: readonly unknown[] = child.stdio ?? [];
  const { pid, stdin, stdout, stderr } = child;
  const progress = streams[PROGRESS_FD];
  const hasAll = stdin && stdout && stderr && progress instanceof Readable;
  if (errorCode !== null || pid === undefined || !hasAll) {
    for (const stream of child.stdio ?? []) stream?.destroy();
    return { kind: "not_started", errorCode: errorCode ?? "UNKNOWN" };
  }
  const group = new ProcessGroup({ ...options, child, pid, stdin, stdout, stderr, progress });
  return { kind: "started", group };
}

interface ProcessGroupDeps {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly progress: Readable;
  readonly killAfterMs: number;
  readonly clock: Clock;
}

// How often a group without its first process is asked whether anyone is left in it. Nothing tells
// us.
const LOOK_AGAIN_MS_MIN = 2;
const LOOK_AGAIN_MS_MAX = 100;

// How long killed processes have to disappear, and output to end after the last process did.
const LINGER_MS = 1000;

/**
 * One process and what it forked. It runs until the first process exits; from then on, or from
 * `stop` on, whatever is in the group gets SIGTERM once and SIGKILL `killAfterMs` later. A process
 * that has left the group (setsid) is out of reach: it is not waited for, and its hold on the
 * output is cut.
 */
export class ProcessGroup {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** What it writes to descriptor {@link PROGRESS_FD}. */
  readonly progress: Readable;
  /**
   * Settles when the first process has exited; others of its group may still run. Never rejects.
   */
  readonly exited: Promise<ProcessExit>;
  readonly #outputClosed: Promise<unknown>;
  readonly #deps: ProcessGroupDeps;
  #killTimer: Timer | null = null;
  #isStopping = false;
  #isKilled = false;
  #isEmpty = false;

  constructor(deps: ProcessGroupDeps) {
    const { child, pid, stdin, stdout, stderr, progress } = deps;
    this.#deps = deps;
    this.stdin = stdin;
    this.stdout = stdout;
    this.stderr = stderr;
    this.progress = progress;
    this.exited = new Promise((resolve) => {
      child.once("exit", (code: number | null, signal: string | null) => {
        resolve(signal === null ? { code: code ?? 0, signal } : { code: null, signal });
      });
    });
    this.#outputClosed = Promise.all([stdout, stderr].map(closed));
    keepFromOutliving(pid);
  }

  /** Begins to end the group; a second call changes nothing. */
  stop(): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#signal("SIGTERM");
    if (this.#isEmpty) return;
    this.#killTimer = this.#deps.clock.setTimer(this.#deps.killAfterMs, () => {
      this.#isKilled = true;
      this.#signal("SIGKILL");
    });
  }

  /**
   * Waits until the first process has exited and nothing is left of its group, then until the
   * output has ended. Resolves at the latest `killAfterMs` and two seconds after that exit.
   */
  async end(): Promise<ProcessExit> {
    const exit = await this.exited;
    this.stop();
    await this.#emptied();
    this.#killTimer?.cancel();
    letOutlive(this.#deps.pid);
    await this.#drained();
    return exit;
  }

  async #emptied(): Promise<void> {
    let waitMs = LOOK_AGAIN_MS_MIN;
    let lingeredMs = 0;
    // The system is asked first because that is one call, and nearly always nobody is left.
    while (this.#signal(0) && (await hasRunningMember(this.#deps.pid))) {
      if (lingeredMs >= LINGER_MS) return;
      await wait(waitMs, { clock: this.#deps.clock });
      if (this.#isKilled) lingeredMs += waitMs;
      waitMs = Math.min(waitMs * 2, LOOK_AGAIN_MS_MAX);
    }
    // For one that was forked while the others were looked at. It cannot hurt the dead.
    this.#signal("SIGKILL");
  }

  async #drained(): Promise<void> {
    const linger = this.#deps.clock.setTimer(LINGER_MS, () => {
      // After a busy second this may fire before what was written in time has been read: the next
      // immediate comes after the loop has looked at its descriptors.
      void setImmediate().then(() => {
        this.stdout.destroy();
        this.stderr.destroy();
      });
    });
    await this.#outputClosed;
    linger.cancel();
    if (this.progress.closed) return;
    // What was written before the end has arrived by then. A process that left the group and holds no
    // more than this descriptor is not waited for: what it says is of no use to anybody.
    await setImmediate();
    this.progress.destroy();
  }

  /**
   * Signals every process of the group; false when there is none, or none that is ours to signal.
   */
  #signal(signal: "SIGTERM" | "SIGKILL" | 0): boolean {
    if (this.#isEmpty) return false;
    const errorCode = signalGroup(this.#deps.pid, signal);
    // From here on the number may belong to somebody else: it is never signalled again.
    if (errorCode === "ESRCH") this.#isEmpty = true;
    return errorCode === null;
  }
}

function closed(stream: Readable): Promise<void> {
  return new Promise((resolve) => stream.once("close", resolve));
}

const livePids = new Set<number>();

// A daemon that ends by process.exit or by a bug takes its commands with it. Nothing can after
// SIGKILL.
function keepFromOutliving(pid: number): void {
  if (livePids.size === 0) process.on("exit", killLiveGroups);
  livePids.add(pid);
}

function letOutlive(pid: number): void {
  livePids.delete(pid);
  if (livePids.size === 0) process.off("exit", killLiveGroups);
}

function killLiveGroups(): void {
  for (const pid of livePids) signalGroup(pid, "SIGKILL");
}

function signalGroup(pid: number, signal: "SIGTERM" | "SIGKILL" | 0): string | null {
  try {
    process.kill(-pid, signal);
    return null;
  } catch (error) {
    return errorCodeOf(error);
  }
}

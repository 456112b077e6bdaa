import { ChildProcess } from "node:child_process";
import { Readable, type Writable } from "node:stream";

import { type Clock, type Timer, wait } from "../domain/clock/clock.ts";
import { setImmediate } from "../domain/clock/timers.ts";
import { codeOf } from "../domain/error.ts";
import { spawnInto, type SpawnOptions } from "../node-internals.ts";
import { hasRunningMember } from "./processes.ts";

/** How the first process of a group ended: by itself with a code, or by a signal. */
export type ProcessExit =
  | { readonly code: number; readonly signal: null }
  | { readonly code: null; readonly signal: string };

/** A started group, or the system's name for the error that kept it from starting (`ENOENT`, `EMFILE`, …). */
type ProcessGroupStart =
  | { readonly kind: "started"; readonly group: ProcessGroup }
  | { readonly kind: "not_started"; readonly errorCode: string };

/**
 * The descriptor on which a command may report its progress: open for every command, beside 0, 1 and 2. It costs 10
 * µs of the daemon's time per process, and 0.6 % of the rate at which `true` can be started (40 pairs of 150 starts
 * each, 2026-11-21).
 */
export const PROGRESS_FD = 3;

/** Starts `command` without a shell as the first process of a process group of its own. */
export function startProcessGroup({
  clock,
  ...options
}: Omit<SpawnOptions, "stdio"> & { readonly clock: Clock }): ProcessGroupStart {
  const child = new ChildProcess();
  // Without a listener the event would end the daemon, and its error is known by then.
  child.on("error", () => {});
  const errorCode = spawnInto(child, { ...options, stdio: ["pipe", "pipe", "pipe", "pipe"] });
  // The streams do not exist if the system refused early.
  const streams: readonly unknown[] = child.stdio ?? [];
  const { pid, stdin, stdout, stderr } = child;
  const progress = streams[PROGRESS_FD];
  const hasAll = stdin && stdout && stderr && progress instanceof Readable;
  if (errorCode !== null || pid === undefined || !hasAll) {
    for (const stream of child.stdio ?? []) stream?.destroy();
    return { kind: "not_started", errorCode: errorCode ?? "UNKNOWN" };
  }
  const group = new ProcessGroup({
    clock,
    child,
    pid,
    streams: { stdin, stdout, stderr, progress },
  });
  return { kind: "started", group };
}

interface GroupStreams {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** The stream that the group writes to descriptor {@link PROGRESS_FD}. */
  readonly progress: Readable;
}

interface ProcessGroupDeps {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly streams: GroupStreams;
  readonly clock: Clock;
}

// From SIGTERM to SIGKILL (runners.md).
const KILL_AFTER_MS = 5000;

// How often to ask whether anyone is left in a group without its first process. No event reports it.
const LOOK_AGAIN_MS_MIN = 2;
const LOOK_AGAIN_MS_MAX = 100;

// How long killed processes have to disappear, and the output has to end after the last process did.
const LINGER_MS = 1000;

/**
 * One process and the processes that it forked. It runs until the first process exits; from then on, or from `stop`
 * on, the whole group gets SIGTERM once and SIGKILL 5 s later. A process that has left the group (setsid)
 * is out of reach: it is not waited for, and its hold on the output is cut.
 */
export class ProcessGroup {
  readonly streams: GroupStreams;
  /** Settles when the first process has exited; others of its group may still run. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  readonly #outputClosed: Promise<unknown>;
  readonly #deps: ProcessGroupDeps;
  #killTimer: Timer | null = null;
  #isStopping = false;
  #isKilled = false;
  #isEmpty = false;

  constructor(deps: ProcessGroupDeps) {
    const { child, pid, streams } = deps;
    this.#deps = deps;
    this.streams = streams;
    this.exited = new Promise((resolve) => {
      child.once("exit", (code: number | null, signal: string | null) => {
        resolve(signal === null ? { code: code ?? 0, signal } : { code: null, signal });
      });
    });
    this.#outputClosed = Promise.all([streams.stdout, streams.stderr].map(closed));
    keepFromOutliving(pid);
  }

  /** Begins to end the group; a second call changes nothing. */
  stop(): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#signal("SIGTERM");
    if (this.#isEmpty) return;
    this.#killTimer = this.#deps.clock.setTimer(KILL_AFTER_MS, () => {
      this.#isKilled = true;
      this.#signal("SIGKILL");
    });
  }

  /** Waits until the group is empty and the output has ended: at most 7 s after the exit of the first process. */
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
    // Ask the system first: it is one call, and the group is nearly always empty.
    while (this.#signal(0) && (await hasRunningMember(this.#deps.pid))) {
      if (lingeredMs >= LINGER_MS) return;
      await wait(waitMs, { clock: this.#deps.clock });
      if (this.#isKilled) lingeredMs += waitMs;
      waitMs = Math.min(waitMs * 2, LOOK_AGAIN_MS_MAX);
    }
    // A process may have been forked while the others were looked at. The signal cannot hurt the dead.
    this.#signal("SIGKILL");
  }

  async #drained(): Promise<void> {
    const { stdout, stderr, progress } = this.streams;
    const linger = this.#deps.clock.setTimer(LINGER_MS, () => {
      // After a busy second this may fire before output that was written in time has been read: the next immediate
      // comes after the loop has looked at its descriptors.
      setImmediate(() => {
        stdout.destroy();
        stderr.destroy();
      });
    });
    await this.#outputClosed;
    linger.cancel();
    if (progress.closed) return;
    // Output written before the end has arrived by then. A process that left the group and holds only this descriptor
    // is not waited for: its reports are not needed any more.
    await new Promise((resolve) => setImmediate(resolve));
    progress.destroy();
  }

  /** Signals every process of the group; false if it has no process, or none that this user may signal. */
  #signal(signal: "SIGTERM" | "SIGKILL" | 0): boolean {
    if (this.#isEmpty) return false;
    const errorCode = signalGroup(this.#deps.pid, signal);
    // From here on the number may belong to another group: it is never signalled again.
    if (errorCode === "ESRCH") this.#isEmpty = true;
    return errorCode === null;
  }
}

function closed(stream: Readable): Promise<void> {
  return new Promise((resolve) => stream.once("close", resolve));
}

const livePids = new Set<number>();

// A daemon that ends by process.exit or by a bug takes its commands with it. After SIGKILL nothing can.
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
    return codeOf(error) ?? "UNKNOWN";
  }
}

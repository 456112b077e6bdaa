import { readFileSync, statSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

import { eachProcess, isRunning, type ProcessEntry, readProcess } from "./process-table.ts";

/**
 * The variable that says whose a command is: `<owner>/<pid>.<start time>` of the daemon or worker that
 * started it. What the command starts inherits it, also in a session of its own.
 */
export const RUN_OF = "POSTBACKD_RUN_OF";

/** What became of the commands that an ended daemon or worker left running. */
export interface OrphanCount {
  /** Processes that were ended. */
  readonly ended: number;
  /** Processes that could not be ended in time: the system keeps them in an uninterruptible wait. */
  readonly left: number;
}

/**
 * The value of {@link RUN_OF} for what this process starts; null where the system has no /proc of this
 * process, and so no way to find orphans either. `owner` is any text without NUL that no other living
 * daemon or worker of this machine uses: then what bears it can only be this one's or a dead one's.
 */
export function runMark(owner: string): string | null {
  const self = readProcess("self");
  // The /proc of another process namespace counts otherwise than the signals do.
  if (self === null || self.pid !== process.pid) return null;
  return `${owner}/${self.pid}.${self.startTime}`;
}

/**
 * Ends, with SIGKILL, the processes that an ended daemon or worker of the same owner left running: those
 * of this user whose environment bears the owner's mark and whose starter is no more. It looks again
 * until nobody is left, for what they forked meanwhile, at most some 3 s. What it cannot prove to be an
 * orphan it leaves alone: this process and those above it, processes of living starters, of other owners,
 * and programs that have overwritten their environment. Nothing happens where there is no /proc.
 */
export async function endOrphans({ owner }: { readonly owner: string }): Promise<OrphanCount> {
  const mark = runMark(owner);
  if (mark === null) return { ended: 0, left: 0 };
  const ended = new Set<string>();
  let left = 0;
  let emptyLooks = 0;
  for (const waitMs of LOOK_AGAIN_MS) {
    left = await endThoseSeen({ owner, spared: selfAndAncestors(), ended });
    emptyLooks = left === 0 ? emptyLooks + 1 : 0;
    if (emptyLooks === EMPTY_LOOKS) break;
    // In real time: what is waited for is the system, and a virtual clock stands still meanwhile.
    if (left > 0) await setTimeout(waitMs);
  }
  return { ended: ended.size - left, left };
}

// A process that forks and exits while the table is read can be missed once.
const EMPTY_LOOKS = 2;
const LOOK_AGAIN_MS = [1, 1, 2, 5, 10, 20, ...Array.from({ length: 60 }, () => 50)];

interface Search {
  readonly owner: string;
  readonly spared: ReadonlySet<number>;
  /** Pid and start time of all that were sent a signal. */
  readonly ended: Set<string>;
}

/** Looks at all processes once; how many orphans there were. */
async function endThoseSeen({ owner, spared, ended }: Search): Promise<number> {
  let seen = 0;
  for await (const entry of eachProcess()) {
    if (spared.has(entry.pid) || !isOrphan(entry, owner)) continue;
    seen++;
    ended.add(`${entry.pid}.${entry.startTime}`);
    end(entry, owner);
  }
  return seen;
}

function isOrphan(entry: ProcessEntry, owner: string): boolean {
  if (!isRunning(entry)) return false;
  const starter = parseMark(readMark(entry.pid), owner);
  return starter !== null && !isAlive(starter);
}

// Its number may have passed to another process since it was looked at. Nothing but the microseconds
// between the last look and the signal is left of that.
function end(seen: ProcessEntry, owner: string): void {
  const now = readProcess(seen.pid);
  if (now?.startTime !== seen.startTime || !isOrphan(now, owner)) return;
  try {
    process.kill(seen.pid, "SIGKILL");
  } catch {
    // It has ended by itself, or has become another user's: not ours to end any more.
  }
}

/** The process that started a command. */
interface Starter {
  readonly pid: number;
  readonly startTime: string;
}

function parseMark(mark: string | null, owner: string): Starter | null {
  if (mark === null || !mark.startsWith(`${owner}/`)) return null;
  const match = /^(\d+)\.(\d+)$/.exec(mark.slice(owner.length + 1));
  if (match === null) return null;
  const [, pid = "", startTime = ""] = match;
  return { pid: Number(pid), startTime };
}

function isAlive({ pid, startTime }: Starter): boolean {
  const entry = readProcess(pid);
  return entry !== null && entry.startTime === startTime && isRunning(entry);
}

/** The mark in the environment of a process of this user. */
function readMark(pid: number): string | null {
  let environment: Buffer;
  try {
    if (statSync(`/proc/${pid}`).uid !== process.geteuid?.()) return null;
    environment = readFileSync(`/proc/${pid}/environ`);
  } catch {
    // It has ended, or is not ours to look into.
    return null;
  }
  // Each variable ends with NUL, so this finds no tail of another name.
  const name = `${RUN_OF}=`;
  const variables = environment.toString("utf8").split("\0");
  return variables.find((variable) => variable.startsWith(name))?.slice(name.length) ?? null;
}

/** This process may itself have been started by a command, and so may what supervises it. */
function selfAndAncestors(): ReadonlySet<number> {
  const pids = new Set<number>();
  let entry = readProcess("self");
  while (entry !== null && !pids.has(entry.pid)) {
    pids.add(entry.pid);
    entry = readProcess(entry.parentPid);
  }
  return pids;
}

import { readFileSync, readdirSync, readlinkSync, statSync } from "node:fs";

import { setImmediate, setTimeout } from "../domain/clock/timers.ts";

interface ProcessEntry {
  readonly pid: number;
  /** One letter: `R`, `S`, …; `Z` is a process that has ended and waits for its parent to notice. */
  readonly state: string;
  readonly parentPid: number;
  readonly groupId: number;
  /** Clock ticks since the machine's start, as text: with the pid it identifies a process permanently. */
  readonly startTime: string;
}

// Look at this many processes before others get a turn: that takes about a millisecond (30 µs each).
const LOOKS_PER_TURN = 32;

/**
 * Whether a process of the group runs. A process that has ended and waits for its parent to notice (a zombie) does not
 * run, yet it can be signalled, forever if process 1 of a container reaps no zombies. Also true without /proc.
 */
export async function hasRunningMember(processGroupId: number): Promise<boolean> {
  if (readProcess("self") === null) return true;
  for await (const entry of eachProcess()) {
    if (entry.groupId === processGroupId && isRunning(entry)) return true;
  }
  return false;
}

/** The processes of this machine, each in its present state; empty without /proc. */
async function* eachProcess(): AsyncGenerator<ProcessEntry> {
  for (const [index, pid] of listPids().entries()) {
    if (index % LOOKS_PER_TURN === LOOKS_PER_TURN - 1)
      await new Promise((resolve) => setImmediate(resolve));
    const entry = readProcess(pid);
    if (entry !== null) yield entry;
  }
}

/** The process in its present state; null when no process has that number. */
export function readProcess(pid: number | "self"): ProcessEntry | null {
  const stat = readStat(pid);
  // proc_pid_stat(5): pid (name) state ppid pgrp …; a name may hold anything. The start time is the 22nd field.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, parentPid, groupId] = fields;
  const startTime = fields[START_TIME_FIELD];
  if (!state || startTime === undefined) return null;
  return {
    pid: Number.parseInt(stat, 10),
    state,
    parentPid: Number(parentPid),
    groupId: Number(groupId),
    startTime,
  };
}

/** The number of the namespace in which this process counts pids; "0" where the system gives none. */
export function pidNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid").replaceAll(/\D/g, "");
  } catch {
    return "0";
  }
}

/** False for a process that has ended, whether or not its parent has noticed. */
export function isRunning({ state }: ProcessEntry): boolean {
  return state !== "Z" && state !== "X";
}

const START_TIME_FIELD = 22 - 3;

function listPids(): readonly number[] {
  try {
    return readdirSync("/proc").flatMap((name) => (/^\d/.test(name) ? [Number(name)] : []));
  } catch {
    // Not Linux, or no /proc in this container: there is nothing to ask.
    return [];
  }
}

// Read synchronously: /proc is memory, and the way through the thread pool takes ten times longer.
function readStat(pid: number | "self"): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    // The process ended between the listing and this look.
    return "";
  }
}

/** Names the owner of a command: `<owner>/<pid>.<start time>` of its starter. The command's processes inherit it. */
export const RUN_OF = "POSTBACKD_RUN_OF";

/**
 * The value of {@link RUN_OF} for the processes that this one starts; null where the system has no /proc of this
 * process, and so no way to find orphans. `owner` is any text without NUL that no other living daemon or worker of
 * this machine uses: then a process with this mark can only belong to this one or to a dead one.
 */
export function runMark(owner: string): string | null {
  const self = readProcess("self");
  // The /proc of another process namespace counts pids differently than signals do.
  if (self === null || self.pid !== process.pid) return null;
  return `${owner}/${self.pid}.${self.startTime}`;
}

/**
 * Ends, with SIGKILL, the processes that an ended daemon or worker of the same owner left running. These are processes
 * of this user whose environment has the owner's mark and whose starter has ended. It looks again until none is left,
 * because they may have forked meanwhile, for some 3 s at most. It skips every process that is not provably an orphan:
 * this process and its parents, processes of living starters or other owners, and programs that have overwritten their
 * environment. Does nothing without /proc. Returns how many processes it ended, and how many are left because the
 * system keeps them in an uninterruptible wait.
 */
export async function endOrphans({ owner }: { readonly owner: string }): Promise<{
  readonly ended: number;
  readonly left: number;
}> {
  const mark = runMark(owner);
  if (mark === null) return { ended: 0, left: 0 };
  const ended = new Set<string>();
  let left = 0;
  let emptyLooks = 0;
  for (const waitMs of LOOK_AGAIN_MS) {
    left = await endThoseSeen({ owner, spared: selfAndAncestors(), ended });
    emptyLooks = left === 0 ? emptyLooks + 1 : 0;
    if (emptyLooks === EMPTY_LOOKS) break;
    // In real time: the system takes it, and a virtual clock stands still meanwhile.
    if (left > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
  }
  return { ended: ended.size - left, left };
}

// A process that forks and exits while the table is read can be missed once.
const EMPTY_LOOKS = 2;
const LOOK_AGAIN_MS = [1, 1, 2, 5, 10, 20, ...Array.from({ length: 60 }, () => 50)];

interface Search {
  readonly owner: string;
  readonly spared: ReadonlySet<number>;
  /** Pid and start time of every process that got a signal. */
  readonly ended: Set<string>;
}

/** Looks at all processes once; resolves to the number of orphans found. */
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

// Another process may have its pid by now. The check leaves microseconds between it and the signal.
function end(seen: ProcessEntry, owner: string): void {
  const now = readProcess(seen.pid);
  if (now?.startTime !== seen.startTime || !isOrphan(now, owner)) return;
  try {
    process.kill(seen.pid, "SIGKILL");
  } catch {
    // It has ended by itself, or belongs to another user by now: it is not ours to end any more.
  }
}

type Starter = Pick<ProcessEntry, "pid" | "startTime">;

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
    // It has ended, or we may not look into it.
    return null;
  }
  // Each variable ends with NUL, so this finds no tail of another name.
  const name = `${RUN_OF}=`;
  const variables = environment.toString("utf8").split("\0");
  return variables.find((variable) => variable.startsWith(name))?.slice(name.length) ?? null;
}

/** A command may itself have started this process, or its supervisor. */
function selfAndAncestors(): ReadonlySet<number> {
  const pids = new Set<number>();
  let entry = readProcess("self");
  while (entry !== null && !pids.has(entry.pid)) {
    pids.add(entry.pid);
    entry = readProcess(entry.parentPid);
  }
  return pids;
}

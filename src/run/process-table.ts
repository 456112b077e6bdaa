import { readdirSync, readFileSync, readlinkSync } from "node:fs";

import { setImmediate } from "../domain/clock/timers.ts";

/** One line of the system's process table. */
export interface ProcessEntry {
  readonly pid: number;
  /** One letter: `R`, `S`, …; `Z` is a process that has ended and waits for its parent to notice. */
  readonly state: string;
  readonly parentPid: number;
  readonly groupId: number;
  /** Clock ticks since the machine's start, as text: with the pid it names a process for good. */
  readonly startTime: string;
}

// Look at this many processes before others get a turn: that takes about a millisecond (30 µs each).
const LOOKS_PER_TURN = 32;

/**
 * Whether a process of the group runs. A process that has ended and waits for its parent to notice (a zombie) does
 * not run, yet it can be signalled, for ever where process 1 of a container reaps nobody. Also true where there is no
 * /proc to ask.
 */
export async function hasRunningMember(processGroupId: number): Promise<boolean> {
  if (readProcess("self") === null) return true;
  for await (const entry of eachProcess()) {
    if (entry.groupId === processGroupId && isRunning(entry)) return true;
  }
  return false;
}

/** The processes of this machine, each in its present state; none where there is no /proc. */
export async function* eachProcess(): AsyncGenerator<ProcessEntry> {
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
  // proc_pid_stat(5): pid (name) state ppid pgrp …; the name is the program's own and may hold
  // anything. The start time is the 22nd field.
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

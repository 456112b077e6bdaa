import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setImmediate } from "node:timers/promises";

/** What the system's table says of a process. */
export interface ProcessEntry {
  readonly pid: number;
  /** One letter: `R`, `S`, … `Z` for one that has ended and waits for its parent to notice. */
  readonly state: string;
  readonly parentPid: number;
  readonly groupId: number;
  /** Clock ticks since the machine's start, as text: with the pid it names a process for good. */
  readonly startTime: string;
}

// Looks at this many processes before others get a turn: about a millisecond (30 µs each).
const LOOKS_PER_TURN = 32;

/**
 * Whether a process of the group runs. One that has ended and waits for its parent to notice (a
 * zombie) does not run, but it can be signalled like one that does, for ever where process 1 of a
 * container reaps nobody. True as well where there is no /proc to ask.
 */
export async function hasRunningMember(processGroupId: number): Promise<boolean> {
  if (readProcess("self") === null) return true;
  for await (const entry of eachProcess()) {
    if (entry.groupId === processGroupId && isRunning(entry)) return true;
  }
  return false;
}

/** The processes of this machine, each as it is when it is asked for; none where there is no /proc. */
export async function* eachProcess(): AsyncGenerator<ProcessEntry> {
  for (const [index, pid] of listPids().entries()) {
    if (index % LOOKS_PER_TURN === LOOKS_PER_TURN - 1) await setImmediate();
    const entry = readProcess(pid);
    if (entry !== null) yield entry;
  }
}

/** The process as it is now; null when there is none of that number. */
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

/** The number of the namespace that this process counts pids in; "0" where the system tells none. */
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
    // It ended between the listing and the look at it.
    return "";
  }
}

import { readdirSync, readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";

// Looks at this many processes before others get a turn: about a millisecond (30 µs each).
const LOOKS_PER_TURN = 32;

/**
 * Whether a process of the group runs. One that has ended and waits for its parent to notice (a
 * zombie) does not run, but it can be signalled like one that does, for ever where process 1 of a
 * container reaps nobody. True as well where there is no /proc to ask.
 */
export async function hasRunningMember(processGroupId: number): Promise<boolean> {
  const pids = listPids();
  if (pids === null) return true;
  for (const [index, pid] of pids.entries()) {
    if (index % LOOKS_PER_TURN === LOOKS_PER_TURN - 1) await setImmediate();
    if (isRunningMember(pid, processGroupId)) return true;
  }
  return false;
}

function listPids(): readonly string[] | null {
  try {
    return readdirSync("/proc").filter((name) => /^\d/.test(name));
  } catch {
    // Not Linux, or no /proc in this container: there is nothing to ask.
    return null;
  }
}

function isRunningMember(pid: string, processGroupId: number): boolean {
  const stat = readStat(pid);
  // proc_pid_stat(5): pid (name) state ppid pgrp …; the name is the program's own and may hold
  // anything.
  const [state, , group] = stat.slice(stat.lastIndexOf(")") + 2).split(" ", 3);
  return Number(group) === processGroupId && state !== "Z" && state !== "X";
}

// Read synchronously: /proc is memory, and the way through the thread pool takes ten times longer.
function readStat(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    // It ended between the listing and the look at it.
    return "";
  }
}

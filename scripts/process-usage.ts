import { readFileSync } from "node:fs";

/** What a process uses, as Linux tells it. */
export interface ProcessUsage {
  /** Resident memory now. */
  readonly rssBytes: number;
  /** User and system time of all its threads since it started, in steps of 10 ms. */
  readonly cpuSeconds: number;
}

// USER_HZ: 100 on every architecture that Node runs on (sysconf(_SC_CLK_TCK)).
const TICKS_PER_SECOND = 100;

/** The usage of a process of this machine. Throws when there is no such process. */
export function processUsage(pid: number): ProcessUsage {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const rssKib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The second field is the name in parentheses and may hold spaces; what follows it may not.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields[11]) + Number(fields[12]);
  return { rssBytes: rssKib * 1024, cpuSeconds: ticks / TICKS_PER_SECOND };
}

import { readFileSync, readdirSync } from "node:fs";

import { statFields } from "./process-list.ts";

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
  return { rssBytes: rssKib * 1024, cpuSeconds: cpuSecondsOf(`/proc/${pid}/stat`) };
}

/** User and system time of each of its threads since it started, in steps of 10 ms. */
export function threadCpuSeconds(pid: number): ReadonlyMap<string, number> {
  const threads = readdirSync(`/proc/${pid}/task`);
  return new Map(threads.map((id) => [id, cpuSecondsOf(`/proc/${pid}/task/${id}/stat`)]));
}

/** How many files, sockets and pipes it has open. */
export function descriptorCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

function cpuSecondsOf(statFile: string): number {
  const fields = statFields(readFileSync(statFile, "utf8"));
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

import { readFileSync, readdirSync } from "node:fs";

import { sumOf } from "./measure.ts";

/** A process of this machine, as Linux shows it. */
export interface ListedProcess {
  readonly pid: number;
  /** One letter; `Z` and `X` are processes that have ended. */
  readonly state: string;
  readonly parentPid: number;
  /** With its number this identifies it permanently. */
  readonly startTime: string;
}

/**
 * The processes of this machine. Not by the sources' own reader of the same table: what watches postbackd should not
 * make its mistakes.
 */
export function listProcesses(): readonly ListedProcess[] {
  return readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? readListed(name) : []));
}

/** The processes that this one has started and that run, or that it has not noticed to have ended. */
export function childrenOf(pid: number): readonly ListedProcess[] {
  return listProcesses().filter(({ parentPid }) => parentPid === pid);
}

/** The fields behind the name in a `stat` file, from the third on. The name in parentheses may hold anything. */
function statFields(stat: string): readonly string[] {
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

const START_TIME = 22 - 3;

function readListed(pid: string): readonly ListedProcess[] {
  try {
    const fields = statFields(readFileSync(`/proc/${pid}/stat`, "latin1"));
    const [state = "", parentPid] = fields;
    const startTime = fields[START_TIME] ?? "";
    return [{ pid: Number(pid), state, parentPid: Number(parentPid), startTime }];
  } catch {
    // It ended between the listing and the look at it.
    return [];
  }
}

/** The resources that a process uses, as Linux reports them. */
export interface ProcessUsage {
  /** Resident memory now; 0 for an ended process that was not waited for. */
  readonly rssBytes: number;
  /** The most that it has been. */
  readonly rssBytesMax: number;
  /** User and system time of all its threads since it started, in steps of 10 ms. */
  readonly cpuSeconds: number;
}

// USER_HZ: 100 on every architecture that Node runs on (sysconf(_SC_CLK_TCK)).
const TICKS_PER_SECOND = 100;

export function processUsage(pid: number): ProcessUsage {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const bytesOf = (line: RegExp): number => Number(line.exec(status)?.[1] ?? 0) * 1024;
  return {
    rssBytes: bytesOf(/^VmRSS:\s+(\d+) kB$/m),
    rssBytesMax: bytesOf(/^VmHWM:\s+(\d+) kB$/m),
    cpuSeconds: cpuSecondsOf(`/proc/${pid}/stat`),
  };
}

/** The processor time of a process from a moment on. */
export interface Spending {
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** Of one core; NaN where no time has passed. */
  readonly cpuPercent: number;
  /** Resident memory at the end. */
  readonly rssBytes: number;
}

/** Returns the processor time of a process since this call. */
export function spendingOf(pid: number): () => Spending {
  const before = processUsage(pid).cpuSeconds;
  const startedAt = performance.now();
  return () => {
    const seconds = (performance.now() - startedAt) / 1000;
    const { cpuSeconds: now, rssBytes } = processUsage(pid);
    const cpuSeconds = now - before;
    return { seconds, cpuSeconds, cpuPercent: (100 * cpuSeconds) / seconds, rssBytes };
  };
}

/** Returns the processor seconds of a process and its children since this call. */
export function familySpendingOf(pid: number): () => number {
  const look = (): ReadonlyMap<number, number> => {
    const pids = [pid, ...childrenOf(pid).map((child) => child.pid)];
    return new Map(pids.map((each) => [each, cpuSecondsUnlessGone(each)]));
  };
  const before = look();
  return () => sumOf([...look()].map(([each, now]) => now - (before.get(each) ?? 0)));
}

/** Returns the processor seconds of each thread of a process since this call. */
export function threadSpendingOf(pid: number): () => readonly number[] {
  const look = (): ReadonlyMap<string, number> => {
    const threads = readdirSync(`/proc/${pid}/task`);
    return new Map(threads.map((id) => [id, cpuSecondsOf(`/proc/${pid}/task/${id}/stat`)]));
  };
  const before = look();
  return () => [...look()].map(([id, now]) => now - (before.get(id) ?? 0));
}

/** How many files, sockets and pipes it has open. */
export function descriptorCount(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

function cpuSecondsOf(statFile: string): number {
  const fields = statFields(readFileSync(statFile, "utf8"));
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** 0 if the process does not exist: it may end between a listing and its reading. */
function cpuSecondsUnlessGone(pid: number): number {
  try {
    return processUsage(pid).cpuSeconds;
  } catch {
    return 0;
  }
}

/**
 * The CPU time of the main thread of a process, which has the id of the process. It is not a duration: it includes
 * neither the machine's other work nor waits for other threads.
 */
export function mainThreadMs(pid: number): number {
  const [nanos] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanos) / 1e6;
}

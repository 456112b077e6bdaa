import { readFileSync, readdirSync } from "node:fs";

/** A process of this machine, as Linux tells of it. */
export interface ListedProcess {
  readonly pid: number;
  /** One letter; `Z` and `X` are processes that have ended. */
  readonly state: string;
  readonly parentPid: number;
  /** With its number this names it for good. */
  readonly startTime: string;
}

/**
 * The processes of this machine. Not by the sources' own reader of the same table: what watches postbackd should not
 * make its mistakes.
 */
export function listProcesses(): readonly ListedProcess[] {
  return readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? readListed(name) : []));
}

/** What stands behind the name in a `stat` file: from the third field on. The name in parentheses may hold anything. */
export function statFields(stat: string): readonly string[] {
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

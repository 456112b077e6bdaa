import { childrenOf, descriptorCount } from "../kit/processes.ts";

/** The resources of a process, as Linux reports them. */
export interface ProcessHoldings {
  readonly descriptors: number;
  /** Processes that it started and that have not ended, or that it has not noticed to have ended. */
  readonly children: number;
  /** Those of them that have ended. */
  readonly zombies: number;
  readonly childPids: readonly number[];
}

/** The descriptors and children of a process of this machine. Throws when there is no such process. */
export function processHoldings(pid: number): ProcessHoldings {
  const children = childrenOf(pid);
  return {
    descriptors: descriptorCount(pid),
    children: children.length,
    zombies: children.filter(({ state }) => state === "Z").length,
    childPids: children.map((child) => child.pid),
  };
}

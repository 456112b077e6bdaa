import type { ClaimedTask } from "../../src/store/store.ts";

/** A task in its first run, without anything that a client may leave out. */
export function newClaimedTask(own: Partial<ClaimedTask> = {}): ClaimedTask {
  return {
    seq: 1,
    id: "a",
    type: "hold",
    accountId: 1,
    tag: null,
    marketplace: null,
    inputText: null,
    queuedAt: 0,
    traceText: null,
    runs: 1,
    failures: 0,
    ...own,
  };
}

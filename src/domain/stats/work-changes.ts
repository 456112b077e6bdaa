import { stateAtPost } from "../task/task-transition.ts";
import type { NewTask, StoredState } from "../task/task.ts";
import { isUndelivered, type EndedDeliveryState } from "../webhook/delivery.ts";
import type { CountTally } from "./count-tally.ts";
import type { HostTally } from "./host-tally.ts";
import type { EndedAttempt, TrafficTally } from "./traffic-tally.ts";

/**
 * Each transition changes an account's counts and the traffic through one of these functions. A store calls it in the
 * step that makes the transition, with the tallies of its batch (count-tally.ts, host-tally.ts, traffic-tally.ts).
 */

/**
 * The counts of an account: its tasks in each state (`queued` ones may run now, `delayed` ones may not start yet:
 * clients see both as queued), and ready ones; deliveries that failed and are being retried, and `undelivered` ones,
 * which are given up or refused now, neither sent again since nor erased; and the `bytes` of the texts of its tasks,
 * their attempts and kept answers, in UTF-8, with the overhead of each.
 */
export type CountedWord = StoredState | "ready" | "retrying" | "undelivered" | "bytes";

export interface WorkChanges {
  readonly counts: Pick<CountTally, "add" | "move">;
  readonly hosts: Pick<HostTally, "add">;
  readonly traffic: Pick<TrafficTally, "addTasks" | "addAttempt">;
}

/** The tasks of a post. */
interface PostedTasks {
  readonly accountId: number;
  readonly createdAt: number;
  readonly accepted: readonly NewTask[];
  readonly refused: readonly unknown[];
}

/** Counts a post. Refused tasks are failed from the start, and count as posted all the same. */
export function countPost(
  { counts, traffic }: WorkChanges,
  { accountId: accountSeq, createdAt, accepted, refused }: PostedTasks,
  bytes: number,
): void {
  const failed = refused.length;
  let delayed = 0;
  for (const task of accepted) {
    if (stateAtPost(task, createdAt) === "delayed") delayed++;
  }
  counts.add(accountSeq, "queued", accepted.length - delayed);
  counts.add(accountSeq, "delayed", delayed);
  counts.add(accountSeq, "failed", failed);
  counts.add(accountSeq, "bytes", bytes);
  traffic.addTasks({ accountSeq, at: createdAt, posted: accepted.length + failed, failed });
}

export function countClaimed(
  { counts }: Pick<WorkChanges, "counts">,
  { accountSeq, tasks }: { readonly accountSeq: number; readonly tasks: number },
): void {
  counts.add(accountSeq, "queued", -tasks);
  counts.add(accountSeq, "running", tasks);
}

/** `bytes` is the size of its result and its error. */
export function countFinished(
  { counts, traffic }: WorkChanges,
  end: {
    readonly accountSeq: number;
    readonly from: "running" | "queued";
    readonly state: "completed" | "failed";
    readonly endedAt: number;
    readonly bytes: number;
  },
): void {
  const { accountSeq, from, state, endedAt, bytes } = end;
  counts.move(accountSeq, from, state);
  counts.add(accountSeq, "ready", 1);
  counts.add(accountSeq, "bytes", bytes);
  traffic.addTasks({ accountSeq, at: endedAt, [state]: 1 });
}

export function countCancelled(
  { counts, traffic }: WorkChanges,
  end: { readonly accountSeq: number; readonly from: StoredState; readonly cancelledAt: number },
): void {
  const { accountSeq, from, cancelledAt } = end;
  counts.move(accountSeq, from, "cancelled");
  traffic.addTasks({ accountSeq, at: cancelledAt, cancelled: 1 });
}

export function countCollected({ counts }: Pick<WorkChanges, "counts">, accountSeq: number): void {
  counts.add(accountSeq, "ready", -1);
}

/** The traffic stays, because it happened. */
export function countErased(
  { counts }: Pick<WorkChanges, "counts">,
  task: { readonly accountSeq: number; readonly state: StoredState; readonly isReady: boolean },
): void {
  counts.add(task.accountSeq, task.state, -1);
  if (task.isReady) counts.add(task.accountSeq, "ready", -1);
}

/** `bytes` is the size of its record. */
export function countAttempt(
  { counts, hosts, traffic }: WorkChanges,
  record: EndedAttempt,
  bytes: number,
): void {
  const { attempt, decision } = record;
  const { accountId: accountSeq, host } = attempt;
  counts.add(accountSeq, "bytes", bytes);
  traffic.addAttempt(record);
  const wasRetry = attempt.retry > 0;
  const isRetried = decision.state === "scheduled" && decision.retry > 0;
  if (wasRetry !== isRetried) {
    hosts.add({ accountSeq, host, word: "retrying", count: isRetried ? 1 : -1 });
  }
  if (isUndelivered(decision.state)) {
    hosts.add({ accountSeq, host, word: decision.state, count: 1 });
  }
}

/** Counts an ended delivery that begins a fresh series. */
export function countNewSeries(
  { hosts }: Pick<WorkChanges, "hosts">,
  begun: { readonly accountSeq: number; readonly host: string; readonly state: EndedDeliveryState },
): void {
  const { accountSeq, host, state } = begun;
  if (isUndelivered(state)) hosts.add({ accountSeq, host, word: state, count: -1 });
}

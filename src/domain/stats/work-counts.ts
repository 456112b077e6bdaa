import type { AccountUsage } from "../account/quota.ts";
import {
  type NewTask,
  STORED_STATES,
  type StoredState,
  type TaskState,
  stateAtPost,
} from "../task/task.ts";
import { type EndedDeliveryState, isUndelivered } from "../webhook/delivery.ts";
import type { EndedAttempt, TrafficTally } from "./traffic-tally.ts";

/** A store calls one of the functions below in the step of the transition, with the tallies of its batch. */

/**
 * The counts of an account: its tasks in each state (`queued` ones may run now, `delayed` ones may not start yet:
 * clients see both as queued), and ready ones; deliveries that failed and are being retried, and `undelivered` ones,
 * which are given up or refused now, neither sent again since nor erased; and the `bytes` of the texts of its tasks,
 * their attempts and kept answers, in UTF-8, with the overhead of each.
 */
export type CountedWord = (typeof COUNTED_WORDS)[number];

export interface WorkChanges {
  readonly counts: Pick<CountTally, "add" | "move">;
  readonly hosts: Pick<HostTally, "add">;
  readonly traffic: Pick<TrafficTally, "addTasks" | "addAttempt">;
}

interface PostedTasks {
  readonly accountId: number;
  readonly createdAt: number;
  readonly accepted: readonly Pick<NewTask, "startAt">[];
  /** How many of the accepted tasks are started in the same step. */
  readonly started: number;
  readonly refused: readonly unknown[];
}

/** Counts a post. Refused tasks are failed from the start, and still count as posted. */
export function countPost(
  { counts, traffic }: WorkChanges,
  { accountId, createdAt, accepted, started, refused }: PostedTasks,
  bytes: number,
): void {
  const failed = refused.length;
  let delayed = 0;
  for (const task of accepted) {
    if (stateAtPost(task, createdAt) === "delayed") delayed++;
  }
  counts.add(accountId, "queued", accepted.length - delayed - started);
  counts.add(accountId, "running", started);
  counts.add(accountId, "delayed", delayed);
  counts.add(accountId, "failed", failed);
  counts.add(accountId, "bytes", bytes);
  traffic.addTasks({ accountId, at: createdAt, posted: accepted.length + failed, failed });
}

export function countClaimed(
  { counts }: Pick<WorkChanges, "counts">,
  { accountId, tasks }: { readonly accountId: number; readonly tasks: number },
): void {
  counts.add(accountId, "queued", -tasks);
  counts.add(accountId, "running", tasks);
}

/** `bytes` is the size of its result and its error. */
export function countFinished(
  { counts, traffic }: WorkChanges,
  end: {
    readonly accountId: number;
    readonly from: "running" | "queued";
    readonly state: "completed" | "failed";
    readonly endedAt: number;
    readonly bytes: number;
  },
): void {
  const { accountId, from, state, endedAt, bytes } = end;
  counts.move(accountId, from, state);
  counts.add(accountId, "ready", 1);
  counts.add(accountId, "bytes", bytes);
  traffic.addTasks({ accountId, at: endedAt, [state]: 1 });
}

export function countCancelled(
  { counts, traffic }: WorkChanges,
  end: { readonly accountId: number; readonly from: StoredState; readonly cancelledAt: number },
): void {
  const { accountId, from, cancelledAt } = end;
  counts.move(accountId, from, "cancelled");
  traffic.addTasks({ accountId, at: cancelledAt, cancelled: 1 });
}

export function countCollected({ counts }: Pick<WorkChanges, "counts">, accountId: number): void {
  counts.add(accountId, "ready", -1);
}

/** `bytes` is the size of its record. */
export function countAttempt(
  { counts, hosts, traffic }: WorkChanges,
  record: EndedAttempt,
  bytes: number,
): void {
  const { attempt, decision } = record;
  const { accountId, host } = attempt;
  counts.add(accountId, "bytes", bytes);
  traffic.addAttempt(record);
  const wasRetry = attempt.retry > 0;
  const isRetried = decision.state === "scheduled" && decision.retry > 0;
  if (wasRetry !== isRetried) {
    hosts.add({ accountId, host, word: "retrying", count: isRetried ? 1 : -1 });
  }
  if (isUndelivered(decision.state)) {
    hosts.add({ accountId, host, word: decision.state, count: 1 });
  }
}

/** Counts an ended delivery that begins a fresh series. */
export function countNewSeries(
  { hosts }: Pick<WorkChanges, "hosts">,
  begun: { readonly accountId: number; readonly host: string; readonly state: EndedDeliveryState },
): void {
  const { accountId, host, state } = begun;
  if (isUndelivered(state)) hosts.add({ accountId, host, word: state, count: -1 });
}

export type WorkCounts = Readonly<Record<CountedWord, number>>;

/** A count as it is kept. It stays, as 0, when everything that it counts is erased. */
export interface KeptCount {
  /** A database may also have words of earlier versions, which are not counted any more. */
  readonly word: string;
  readonly count: number;
}

const COUNTED_WORDS = [...STORED_STATES, "ready", "retrying", "undelivered", "bytes"] as const;
// Each word of the type is in the list.
const NOTHING = Object.fromEntries(COUNTED_WORDS.map((word) => [word, 0])) as WorkCounts;

export function toWorkCounts(kept: readonly KeptCount[]): WorkCounts {
  const counts = { ...NOTHING };
  for (const { word, count } of kept) if (isCounted(word)) counts[word] = count;
  return counts;
}

function isCounted(word: string): word is CountedWord {
  return Object.hasOwn(NOTHING, word);
}

/** The tasks in each state as clients see it: to them a delayed task is a queued one. */
export function toTaskCounts(counts: WorkCounts): Readonly<Record<TaskState, number>> {
  const { queued, delayed, running, completed, failed, cancelled } = counts;
  return { queued: queued + delayed, running, completed, failed, cancelled };
}

export interface CountWriter {
  add(accountId: number, word: CountedWord, count: number): void;
}

/** Sums a batch's changes of counts: 256 claimed tasks of one account cost two rows, not 512. */
export class CountTally {
  readonly #sums = new Map<number, Map<CountedWord, number>>();

  /** Raises one of an account's counts; a negative number lowers it. */
  add(accountId: number, word: CountedWord, count: number): void {
    if (count === 0) return;
    const sums = this.#sums.get(accountId) ?? new Map<CountedWord, number>();
    if (sums.size === 0) this.#sums.set(accountId, sums);
    sums.set(word, (sums.get(word) ?? 0) + count);
  }

  move(accountId: number, from: StoredState, to: StoredState): void {
    this.add(accountId, from, -1);
    this.add(accountId, to, 1);
  }

  /** The usage of an account now, from its usage when the batch began. */
  usageAfter(accountId: number, before: AccountUsage): AccountUsage {
    const sums = this.#sums.get(accountId);
    if (sums === undefined) return before;
    let { bytes, openTasks } = before;
    for (const [word, sum] of sums) {
      if (word === "bytes") bytes += sum;
      else if (word === "queued" || word === "delayed" || word === "running") openTasks += sum;
    }
    return { bytes, openTasks };
  }

  /** Writes the changes, adds their accounts to `changed`, and resets the changes. */
  write(writer: CountWriter, changed: Set<number>): void {
    for (const [accountId, sums] of this.#sums) {
      changed.add(accountId);
      for (const [word, sum] of sums) if (sum !== 0) writer.add(accountId, word, sum);
    }
    this.#sums.clear();
  }

  reset(): void {
    this.#sums.clear();
  }
}

/** The counts of an account's deliveries to a host: those that are given up, refused or being retried now. */
export const HOST_WORDS = ["given_up", "refused", "retrying"] as const;
export type HostWord = (typeof HOST_WORDS)[number];

/** Changes such a count of an account and a host; a negative `count` lowers it. */
export interface HostChange {
  readonly accountId: number;
  readonly host: string;
  readonly word: HostWord;
  readonly count: number;
}

export type HostSums = Record<HostWord, number>;

/** Writes the sums of a batch; those that are all zero are left out. */
export type HostWriter = (accountId: number, host: string, sums: Readonly<HostSums>) => void;

/** Sums a batch's changes of hosts. A delivery that succeeds at the first attempt changes nothing here. */
export class HostTally {
  readonly #counts: WorkChanges["counts"];
  readonly #sums = new Map<number, Map<string, HostSums>>();

  constructor(counts: WorkChanges["counts"]) {
    this.#counts = counts;
  }

  /** Also reports it for the entire account. */
  add({ accountId, host, word, count }: HostChange): void {
    this.#counts.add(accountId, word === "retrying" ? "retrying" : "undelivered", count);
    const hosts = this.#sums.get(accountId) ?? new Map<string, HostSums>();
    if (hosts.size === 0) this.#sums.set(accountId, hosts);
    const sums = hosts.get(host) ?? { given_up: 0, refused: 0, retrying: 0 };
    sums[word] += count;
    hosts.set(host, sums);
  }

  write(writer: HostWriter): void {
    for (const [accountId, hosts] of this.#sums) {
      for (const [host, sums] of hosts) {
        if (HOST_WORDS.some((word) => sums[word] !== 0)) writer(accountId, host, sums);
      }
    }
    this.#sums.clear();
  }

  reset(): void {
    this.#sums.clear();
  }
}

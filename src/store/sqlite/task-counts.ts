import { openTasksOf, type AccountUsage } from "../../domain/account/quota.ts";
import type { TaskState } from "../../domain/task/task.ts";
import type { ChangedAccounts } from "../common/changed-accounts.ts";
import type { FirstSteps, WorkCounts } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

export const ADD_TO_COUNT = `
  INSERT INTO task_counts (account_seq, state, count) VALUES (?, ?, ?)
  ON CONFLICT (account_seq, state) DO UPDATE SET count = count + excluded.count`;

export const NOTE_EVER = `
  INSERT INTO task_counts (account_seq, state, count) VALUES (?, ?, 1)
  ON CONFLICT (account_seq, state) DO NOTHING`;

export const SELECT_COUNTS = `SELECT state, count FROM task_counts WHERE account_seq = ?`;

// Of each account that posts, once in a batch: one row, so that it costs little more than the look-ups.
export const SELECT_USAGE = `
  SELECT coalesce(sum(count) FILTER (WHERE state = 'bytes'), 0) AS bytes,
    coalesce(sum(count) FILTER (WHERE state <> 'bytes'), 0) AS openTasks
  FROM task_counts
  WHERE account_seq = ? AND state IN ('queued', 'delayed', 'running', 'bytes')`;

// Some rows for each account that ever posted.
export const SUM_COUNTS = `SELECT state, sum(count) AS count FROM task_counts GROUP BY state`;

/** A task's state as its row has it: clients are shown `delayed` as queued. */
export type StoredState = TaskState | "delayed";

/**
 * What is counted of an account: its tasks in each state of their rows; of them those that are ready; deliveries that
 * are tried again, and those that were given up or refused; the bytes that its tasks take (task-bytes.ts).
 */
type CountedWord = StoredState | WebhookWord | "ready" | "bytes";

type WebhookWord = "retrying" | "undelivered";

/** What an account has ever done: posted a webhook, had one delivered, collected a task. Its row stays for good. */
type EverWord = "ever_webhook" | "ever_delivered" | "ever_collected";

/** What every write that changes what is counted tells, in the operation that changes it. */
export interface CountChanges {
  /** That an account has so many of something more; fewer, when it is negative. */
  add(accountSeq: number, word: CountedWord, count: number): void;
  /** That one of its tasks went from one state to the other. */
  move(accountSeq: number, from: StoredState, to: StoredState): void;
  /** That an account has done this; whether for the first time need not be known. */
  noteEver(accountSeq: number, word: EverWord): void;
  /** What an account has, as the operation that runs has found it: with all that its batch has changed before. */
  usageOf(accountSeq: number): AccountUsage;
}

/**
 * Keeps how many tasks each account has in each state. Changes are gathered in memory and written once for a
 * batch, in its transaction: 256 claimed tasks of one account cost two rows, not 512.
 */
export class TaskCounts implements CountChanges {
  readonly #addToCount;
  readonly #selectUsage;
  /** What accounts had when the batch began, of those that somebody asked for. */
  readonly #usageBefore = new Map<number, AccountUsage>();
  /** Of the batch so far: the sums by account, then by word. */
  readonly #kept = new Map<number, Map<CountedWord, number>>();
  /** Of the operation that is running. */
  #open: CountChange[] = [];
  /** What accounts have ever done, as far as this connection has written it: once is enough. */
  readonly #everDone = new Map<EverWord, Set<number>>();
  /** Of the operation that is running, and of the batch so far. */
  #everOpen: EverChange[] = [];
  #everKept: EverChange[] = [];

  readonly #noteEver;
  readonly #changed: ChangedAccounts;

  constructor(connection: Connection, changed: ChangedAccounts) {
    this.#changed = changed;
    this.#addToCount = connection.prepare<[number, CountedWord, number]>(ADD_TO_COUNT);
    this.#selectUsage = connection.prepare<[number], AccountUsage>(SELECT_USAGE);
    this.#noteEver = connection.prepare<[number, EverWord]>(NOTE_EVER);
  }

  add(accountSeq: number, word: CountedWord, count: number): void {
    if (count === 0) return;
    this.#open.push({ accountSeq, word, delta: count });
  }

  move(accountSeq: number, from: StoredState, to: StoredState): void {
    this.add(accountSeq, from, -1);
    this.add(accountSeq, to, 1);
  }

  noteEver(accountSeq: number, word: EverWord): void {
    if (this.#everDone.get(word)?.has(accountSeq) === true) return;
    this.#everOpen.push({ accountSeq, word });
  }

  usageOf(accountSeq: number): AccountUsage {
    const before = this.#usageBefore.get(accountSeq) ?? this.#readUsage(accountSeq);
    const sums = this.#kept.get(accountSeq);
    if (sums === undefined) return before;
    let { bytes, openTasks } = before;
    for (const [word, sum] of sums) {
      if (word === "bytes") bytes += sum;
      else if (word === "queued" || word === "delayed" || word === "running") openTasks += sum;
    }
    return { bytes, openTasks };
  }

  #readUsage(accountSeq: number): AccountUsage {
    const usage = this.#selectUsage.get(accountSeq) ?? { bytes: 0, openTasks: 0 };
    this.#usageBefore.set(accountSeq, usage);
    return usage;
  }

  /** The operation is part of the batch: its changes will be written with it. */
  keep(): void {
    if (this.#everOpen.length > 0) this.#everKept.push(...this.#everOpen.splice(0));
    if (this.#open.length === 0) return;
    for (const { accountSeq, word, delta } of this.#open) {
      const sums = this.#kept.get(accountSeq) ?? new Map<CountedWord, number>();
      if (sums.size === 0) this.#kept.set(accountSeq, sums);
      sums.set(word, (sums.get(word) ?? 0) + delta);
      this.#changed.note(accountSeq);
    }
    this.#open = [];
  }

  /** The operation was undone, and what it changed with it. */
  drop(): void {
    this.#open = [];
    this.#everOpen = [];
  }

  /** Writes what was kept. To be called in the batch's transaction, as the last thing before its COMMIT. */
  write(): void {
    for (const [accountSeq, sums] of this.#kept) {
      for (const [word, sum] of sums) if (sum !== 0) this.#addToCount.run(accountSeq, word, sum);
    }
    this.#kept.clear();
    this.#usageBefore.clear();
    for (const { accountSeq, word } of this.#everKept.splice(0)) {
      const done = this.#everDone.get(word) ?? new Set();
      if (done.has(accountSeq)) continue;
      this.#noteEver.run(accountSeq, word);
      this.#everDone.set(word, done.add(accountSeq));
    }
  }

  /** The batch was undone. */
  reset(): void {
    this.drop();
    this.#kept.clear();
    this.#usageBefore.clear();
    this.#everKept = [];
    // What was written last is gone; to write the rest once more does no harm.
    this.#everDone.clear();
  }
}

interface CountRow {
  /** Nothing else is written. */
  state: CountedWord | EverWord;
  count: number;
}

/** The reads on the counts of one account. */
export function taskCountReads(connection: Connection) {
  const select = connection.prepare<[number], CountRow>(SELECT_COUNTS);

  return {
    /** How many of the account's tasks are in each state as clients see it. */
    countTasks(accountSeq: number): Readonly<Record<TaskState, number>> {
      const work = toWorkCounts(select.all(accountSeq));
      const { queued, delayed, running, completed, failed, cancelled } = work;
      return { queued: queued + delayed, running, completed, failed, cancelled };
    },

    countAccountWork(accountSeq: number): WorkCounts {
      return toWorkCounts(select.all(accountSeq));
    },

    findUsage(accountSeq: number): AccountUsage {
      const counts = toWorkCounts(select.all(accountSeq));
      return { bytes: counts.bytes, openTasks: openTasksOf(counts) };
    },

    findAccountFirstSteps(accountSeq: number): FirstSteps {
      return toFirstSteps(select.all(accountSeq));
    },
  };
}

/** The reads on the counts of all accounts together, which go through all of them. */
export function allCountReads(connection: Connection) {
  const sum = connection.prepare<[], CountRow>(SUM_COUNTS);

  return {
    countAllWork(_scope: null): WorkCounts {
      return toWorkCounts(sum.all());
    },

    findAnyFirstSteps(_scope: null): FirstSteps {
      return toFirstSteps(sum.all());
    },
  };
}

function toWorkCounts(rows: readonly CountRow[]): WorkCounts {
  const counts = {
    queued: 0,
    delayed: 0,
    running: 0,
    completed: 0,
    failed: 0,
    cancelled: 0,
    ready: 0,
    retrying: 0,
    undelivered: 0,
    bytes: 0,
  };
  for (const { state, count } of rows) if (!isEverWord(state)) counts[state] = count;
  return counts;
}

// Every accepted task has been counted as one of these, and no refused one: those are `failed` from the first.
const ACCEPTED_WORDS: readonly CountedWord[] = [
  "queued",
  "delayed",
  "running",
  "completed",
  "cancelled",
  "ready",
];

// A row stays when what it counts is erased.
function toFirstSteps(rows: readonly CountRow[]): FirstSteps {
  const words = new Set(rows.map(({ state }) => state));
  return {
    hasPosted: ACCEPTED_WORDS.some((word) => words.has(word)),
    hasCompleted: words.has("completed"),
    hasWebhook: words.has("ever_webhook"),
    hasDelivered: words.has("ever_delivered"),
    hasCollected: words.has("ever_collected"),
  };
}

function isEverWord(word: CountRow["state"]): word is EverWord {
  return word.startsWith("ever_");
}

interface CountChange {
  readonly accountSeq: number;
  readonly word: CountedWord;
  readonly delta: number;
}

interface EverChange {
  readonly accountSeq: number;
  readonly word: EverWord;
}

import type { TaskState } from "../../domain/task.ts";
import type { Connection } from "./connection.ts";

export const ADD_TO_COUNT = `
  INSERT INTO task_counts (account_seq, state, count) VALUES (?, ?, ?)
  ON CONFLICT (account_seq, state) DO UPDATE SET count = count + excluded.count`;

export const SELECT_COUNTS = `SELECT state, count FROM task_counts WHERE account_seq = ?`;

/** A task's state as its row has it: `delayed` is shown, and counted, as queued. */
export type StoredState = TaskState | "delayed";

/** What every write that changes a task's state tells, in the operation that changes it. */
export interface CountChanges {
  /** That an account has so many tasks more in the state; fewer, when it is negative. */
  add(accountSeq: number, state: StoredState, tasks: number): void;
  /** That one of its tasks went from one state to the other. */
  move(accountSeq: number, from: StoredState, to: StoredState): void;
}

/**
 * Keeps how many tasks each account has in each state. Changes are gathered in memory and written once for a
 * batch, in its transaction: 256 claimed tasks of one account cost two rows, not 512.
 */
export class TaskCounts implements CountChanges {
  readonly #addToCount;
  /** Of the batch so far. */
  readonly #kept = new DeltaTable();
  /** Of the operation that is running. */
  readonly #open = new DeltaTable();

  constructor(connection: Connection) {
    this.#addToCount = connection.prepare<[number, TaskState, number]>(ADD_TO_COUNT);
  }

  add(accountSeq: number, state: StoredState, tasks: number): void {
    this.#open.change({ accountSeq, state: toShown(state), delta: tasks });
  }

  move(accountSeq: number, from: StoredState, to: StoredState): void {
    this.add(accountSeq, from, -1);
    this.add(accountSeq, to, 1);
  }

  /** The operation is part of the batch: its changes will be written with it. */
  keep(): void {
    for (const change of this.#open.take()) this.#kept.change(change);
  }

  /** The operation was undone, and what it changed with it. */
  drop(): void {
    this.#open.take();
  }

  /** Writes what was kept. To be called in the batch's transaction, as the last thing before its COMMIT. */
  write(): void {
    for (const { accountSeq, state, delta } of this.#kept.take()) {
      if (delta !== 0) this.#addToCount.run(accountSeq, state, delta);
    }
  }

  /** The batch was undone. */
  reset(): void {
    this.#open.take();
    this.#kept.take();
  }
}

/** The reads on counts. */
export function taskCountReads(connection: Connection) {
  const select = connection.prepare<[number], { state: TaskState; count: number }>(SELECT_COUNTS);

  return {
    /** How many of the account's tasks are in each state. */
    countTasks(accountSeq: number): Readonly<Record<TaskState, number>> {
      const counts = { queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };
      for (const { state, count } of select.all(accountSeq)) counts[state] = count;
      return counts;
    },
  };
}

interface CountChange {
  readonly accountSeq: number;
  readonly state: TaskState;
  readonly delta: number;
}

class DeltaTable {
  readonly #changes = new Map<string, CountChange>();

  change({ accountSeq, state, delta }: CountChange): void {
    const key = `${accountSeq} ${state}`;
    const before = this.#changes.get(key)?.delta ?? 0;
    this.#changes.set(key, { accountSeq, state, delta: before + delta });
  }

  /** All changes; afterwards there are none. */
  take(): readonly CountChange[] {
    const changes = [...this.#changes.values()];
    this.#changes.clear();
    return changes;
  }
}

function toShown(state: StoredState): TaskState {
  return state === "delayed" ? "queued" : state;
}

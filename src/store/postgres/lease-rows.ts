import {
  type LeaseEnding,
  type LeaseFacts,
  type LeaseRef,
  type LeaseTimes,
  leaseExpiry,
  lossesAfter,
  runsRevived,
} from "../../domain/lease/lease.ts";
import { countFinished } from "../../domain/stats/work-counts.ts";
import type { StoredState } from "../../domain/task/task.ts";
import { textBytes } from "../common/byte-sizes.ts";
import type { LaneRef, LeaseSequel, RunEnd } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { isHeld } from "./held-accounts.ts";
import type { BatchSql } from "./machine/sql.ts";
import { toUuid } from "./task-columns.ts";
import { endTasks, lanesOf, type TaskEnd } from "./task-ends.ts";
import { MARK } from "./task-runs.ts";

/**
 * The newest leases of tasks: locked, decided on one after the other in memory, and written as a set.
 */

function columnsOf(row: string): string {
  return `
    t.id, ${row}.task_seq AS seq, ${row}.account_seq AS "accountSeq", ${row}.state, ${row}.runs, ${row}.failures,
    ${row}.started_at AS "startedAt", ${row}.start_at AS "startAt", ${row}.lease_id AS "leaseId",
    ${row}.worker_seq AS "workerSeq", ${row}.lease_ending AS ending, ${row}.losses, ${row}.lease_ms AS "leaseMs",
    ${row}.claimed_at AS "claimedAt", ${row}.deadline_at AS "deadlineAt", ${row}.lease_until AS "expiresAt",
    ${isHeld(`${row}.account_seq`)} AS "isAccountHeld"`;
}

// For `+ 0` see "Rows by their numbers" in machine/sql.ts.
const LOCK_LEASES = `
  SELECT ${columnsOf("q")}
  FROM tasks AS t JOIN queue AS q ON t.seq = q.task_seq + 0
  WHERE t.id = ANY($1::uuid[]) AND q.task_seq = ANY (ARRAY (SELECT seq FROM tasks WHERE id = ANY($1::uuid[])))
    AND q.lease_id IS NOT NULL
  ORDER BY q.task_seq + 0 FOR UPDATE OF q`;

// Asked for together with the locks, it is run after them: so a task that has ended meanwhile is found here.
const ENDED_LEASES = `
  SELECT ${columnsOf("e")}
  FROM tasks AS t JOIN ends AS e ON e.task_seq = t.seq
  WHERE t.id = ANY($1::uuid[]) AND e.lease_id IS NOT NULL`;

// The rows are locked, so nothing of them has changed.
const WRITE_LEASES = `
  UPDATE queue AS q
  SET state = a.state, runs = a.runs, failures = a.failures, started_at = a.started_at, start_at = a.start_at,
    lease_ending = a.ending, losses = a.losses, lease_until = a.lease_until,
    queued_mark = CASE WHEN a.is_queued_anew THEN ${MARK} ELSE q.queued_mark END
  FROM unnest(
    $1::bigint[], $2::task_state[], $3::int[], $4::int[], $5::bigint[], $6::bigint[], $7::lease_ending[], $8::int[],
    $9::bigint[], $10::boolean[]
  ) AS a (seq, state, runs, failures, started_at, start_at, ending, losses, lease_until, is_queued_anew)
  WHERE q.task_seq = ANY ($1::bigint[]) AND a.seq = q.task_seq + 0`;

interface FoundLease extends LeaseFacts, LeaseTimes {
  readonly id: string;
  readonly seq: number;
  readonly accountSeq: number;
  readonly runs: number;
  readonly failures: number;
  readonly startedAt: number | null;
  readonly startAt: number | null;
  readonly leaseId: string;
  readonly workerSeq: number;
  readonly isAccountHeld: boolean;
}

/** A task with its newest lease, as the operations of a batch change it. */
export class LeaseRow implements LeaseFacts, LeaseTimes {
  readonly #found: FoundLease;
  readonly #counts: BatchChanges["counts"];
  state: StoredState;
  ending: LeaseEnding | null;
  losses: number;
  expiresAt: number;
  runs: number;
  failures: number;
  startedAt: number | null;
  startAt: number | null;
  /** How its task ended in this batch. */
  end: RunEnd | null = null;
  isChanged = false;
  isRevived = false;
  isQueuedAnew = false;

  constructor(found: FoundLease, { counts }: Pick<BatchChanges, "counts">) {
    this.#found = found;
    this.#counts = counts;
    this.state = found.state;
    this.ending = found.ending;
    this.losses = found.losses;
    this.expiresAt = found.expiresAt;
    this.runs = found.runs;
    this.failures = found.failures;
    this.startedAt = found.startedAt;
    this.startAt = found.startAt;
  }

  get seq(): number {
    return this.#found.seq;
  }

  get accountSeq(): number {
    return this.#found.accountSeq;
  }

  get claimedAt(): number {
    return this.#found.claimedAt;
  }

  get leaseMs(): number {
    return this.#found.leaseMs;
  }

  get deadlineAt(): number {
    return this.#found.deadlineAt;
  }

  get isAccountHeld(): boolean {
    return this.#found.isAccountHeld;
  }

  /** Another worker's lease and a lease that never existed get the same answer, even for somebody who knows its id. */
  isNamed(leaseId: string, workerId: number | null): boolean {
    const { leaseId: ownId, workerSeq } = this.#found;
    return leaseId === ownId && (workerId === null || workerId === workerSeq);
  }

  extend(now: number): void {
    this.isChanged = true;
    this.expiresAt = leaseExpiry(this, now);
  }

  /** Gives the task back to the lease. */
  revive(): void {
    this.isChanged = true;
    this.isRevived = true;
    this.runs += runsRevived(this);
    this.state = "running";
    this.startedAt = this.claimedAt;
    this.isQueuedAnew = false;
    this.#counts.move(this.accountSeq, "queued", "running");
  }

  /** A null ending means that it is held again. Comes after {@link revive}, which asks how it had ended. */
  setEnding(ending: LeaseEnding | null): void {
    this.isChanged = true;
    this.losses = lossesAfter(this, ending);
    this.ending = ending;
  }

  /** Ends the run. */
  follow(sequel: LeaseSequel): void {
    switch (sequel.kind) {
      case "finish":
        this.end = sequel;
        this.state = sequel.state;
        break;
      case "retry":
        this.#putBack("delayed");
        this.startAt = sequel.startAt;
        this.failures++;
        break;
      case "requeue":
        this.#putBack("queued");
        this.isQueuedAnew = true;
        if (!sequel.isRunCounted) this.runs--;
        break;
    }
  }

  #putBack(state: "queued" | "delayed"): void {
    this.state = state;
    this.startedAt = null;
    this.#counts.move(this.accountSeq, "running", state);
  }
}

/** The leases that the operations of a batch name. */
export class LeaseRows {
  readonly #sql: BatchSql;
  readonly #changes: BatchChanges;
  #byTask: ReadonlyMap<string, LeaseRow> = new Map();

  constructor(sql: BatchSql, changes: BatchChanges) {
    this.#sql = sql;
    this.#changes = changes;
  }

  /** Locks the tasks of these leases. */
  async lock(refs: readonly LeaseRef[]): Promise<void> {
    const ids = [...new Set(refs.map(({ id }) => toUuid(id)))];
    if (ids.length === 0) return;
    const [open, ended] = await Promise.all([
      this.#sql.all<FoundLease>(LOCK_LEASES, [ids]),
      this.#sql.all<FoundLease>(ENDED_LEASES, [ids]),
    ]);
    this.#byTask = new Map(
      [...open, ...ended].map((found) => [found.id, new LeaseRow(found, this.#changes)]),
    );
  }

  /** The newest lease of a task, if it is this one; a null worker stands for any holder. */
  find({ id, leaseId }: LeaseRef, workerId: number | null): LeaseRow | undefined {
    const row = this.#byTask.get(id);
    return row?.isNamed(leaseId, workerId) === true ? row : undefined;
  }

  /** Writes what has become of them. Answers the lanes that now have an attempt due, by the rows of their tasks. */
  async write(): Promise<ReadonlyMap<number, readonly LaneRef[]>> {
    const rows = [...this.#byTask.values()];
    // The end of a task writes its lease with it; but it ends only tasks that run.
    this.#writeChanged(
      rows.filter(({ end, isChanged, isRevived }) => (end === null ? isChanged : isRevived)),
    );
    const ended = await endTasks(
      this.#sql,
      rows.flatMap((row) => toTaskEnd(row) ?? []),
    );
    for (const { end, accountSeq } of rows) {
      if (end === null) continue;
      const { state, endedAt } = end;
      const bytes = textBytes(end.resultText, end.errorText);
      countFinished(this.#changes, { accountSeq, from: "running", state, endedAt, bytes });
    }
    return new Map(ended.map((task) => [task.seq, lanesOf(task)]));
  }

  #writeChanged(rows: readonly LeaseRow[]): void {
    if (rows.length === 0) return;
    this.#sql.send(WRITE_LEASES, [
      rows.map(({ seq }) => seq),
      // A task that was revived and ended runs until its end, which comes next.
      rows.map(({ state, end }) => (end === null ? state : "running")),
      rows.map(({ runs }) => runs),
      rows.map(({ failures }) => failures),
      rows.map(({ startedAt }) => startedAt),
      rows.map(({ startAt }) => startAt),
      rows.map(({ ending }) => ending),
      rows.map(({ losses }) => losses),
      rows.map(({ expiresAt }) => expiresAt),
      rows.map(({ isQueuedAnew }) => isQueuedAnew),
    ]);
  }
}

function toTaskEnd({ seq, end, ending, losses }: LeaseRow): TaskEnd | null {
  if (end === null || ending === null) return null;
  const lease = { ending, losses };
  return { ...end, seq, from: ["running"], nodeSeq: null, run: null, id: null, lease };
}

import {
  type LeaseEnding,
  type LeaseRef,
  type LeaseTimes,
  decideBeat,
  decideLeaseEnd,
  leaseExpiry,
  lossesAfter,
  resumedLease,
  runsRevived,
} from "../../domain/lease/lease.ts";
import { countFinished } from "../../domain/stats/work-counts.ts";
import type { StoredState } from "../../domain/task/task.ts";
import { textBytes } from "../common/large-task.ts";
import type {
  BeatOutcome,
  LaneRef,
  Lease,
  LeaseEnd,
  LeaseEndResult,
  LeaseEnds,
  LeaseSequel,
  RunEnd,
  Store,
  WorkerLeases,
} from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { LeaseClaims } from "./lease-claims.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { type ArgsOf, type SetSteps, each } from "./steps.ts";
import { isSuspended, toUuid } from "./task-columns.ts";
import { MARK, type TaskEnd, endTasks, lanesOf } from "./task-runs.ts";

const IS_HELD = `q.lease_id IS NOT NULL AND q.lease_ending IS NULL`;

const LOCK_HELD = `
  SELECT q.task_seq AS seq, q.claimed_at AS "claimedAt", q.lease_ms AS "leaseMs", q.deadline_at AS "deadlineAt"
  FROM queue AS q WHERE ${IS_HELD}
  ORDER BY q.task_seq FOR UPDATE`;

const RESUME_LEASES = `
  UPDATE queue AS q SET claimed_at = a.claimed_at, deadline_at = a.deadline_at, lease_until = a.lease_until
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS a (seq, claimed_at, deadline_at, lease_until)
  WHERE q.task_seq = a.seq`;

// By the rows of the nodes: one that had joined before, and was neither gone nor silent when this one joined.
const FIND_OTHER_NODE = `
  SELECT EXISTS (
    SELECT 1 FROM nodes AS n JOIN nodes AS own ON own.seq = $1
    WHERE n.seq < own.seq AND NOT n.is_tool AND n.expires_at > own.joined_at AND coalesce(n.ended_at > own.joined_at, true)
  ) AS found`;

const HELD_COLUMNS = `
  (SELECT id FROM tasks AS t WHERE t.seq = q.task_seq) AS id, q.type, q.failures, q.lease_id AS "leaseId", q.losses, q.lease_until AS "expiresAt",
  q.deadline_at AS "deadlineAt"`;

const HELD_LEASES = `
  SELECT ${HELD_COLUMNS} FROM queue AS q
  WHERE ${IS_HELD}
  ORDER BY q.lease_until`;

const DUE_LEASES = `
  SELECT ${HELD_COLUMNS}
  FROM (
    SELECT * FROM queue AS q WHERE ${IS_HELD} AND q.lease_until <= $1
    ORDER BY q.lease_until LIMIT $2::int
  ) AS q
  ORDER BY q.lease_until`;

const FIND_LEASES = `
  SELECT t.id, t.type, coalesce(q.failures, e.failures) AS failures, coalesce(q.lease_id, e.lease_id) AS "leaseId",
    coalesce(q.losses, e.losses) AS losses, coalesce(q.lease_until, e.lease_until) AS "expiresAt",
    coalesce(q.deadline_at, e.deadline_at) AS "deadlineAt"
  FROM tasks AS t LEFT JOIN queue AS q ON q.task_seq = t.seq LEFT JOIN ends AS e ON e.task_seq = t.seq
  WHERE t.id = ANY($1::uuid[]) AND coalesce(q.worker_seq, e.worker_seq) = $2`;

export function leaseWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    claimLeases: (claims) => new LeaseClaims(sql, changes).claimAll(claims),

    async extendLeases(beats) {
      const rows = new LeaseRows(sql, changes);
      await rows.lock(beats.flatMap(({ leases }) => leases));
      const outcomes = beats.map((of) => beat(rows, of));
      await rows.write();
      return outcomes;
    },

    async endLeases(list) {
      const rows = new LeaseRows(sql, changes);
      await rows.lock(list.flatMap(({ ends }) => ends));
      const ended = list.map(({ ends, ...by }) => ends.map((order) => end(rows, order, by)));
      const lanes = await rows.write();
      return ended.map((ends) =>
        ends.map(({ lease, ...result }) => ({
          ...result,
          lanes: lanes.get(lease?.seq ?? 0) ?? [],
        })),
      );
    },

    resumeLeases: each((left) => resume(sql, left)),
  } satisfies SetSteps;
}

function beat(
  rows: LeaseRows,
  { leases, workerId, now }: WorkerLeases & { readonly now: number },
): readonly BeatOutcome[] {
  return leases.map((ref) => {
    const lease = rows.find(ref, workerId);
    const decision = decideBeat(lease, { now, isSuspended: lease?.isSuspended === true });
    if (lease === undefined || decision === "lost") return "lost";
    if (decision === "cancelled") return "cancelled";
    if (decision === "stop") {
      rows.setEnding(lease, "cancelled");
      rows.follow(lease, { kind: "requeue", isRunCounted: false });
      return "suspended";
    }
    if (decision === "revive") {
      rows.revive(lease);
      rows.setEnding(lease, null);
    }
    lease.isChanged = true;
    lease.expiresAt = leaseExpiry(lease, now);
    return "ok";
  });
}

/** A result whose lanes are known once it is written, and the lease whose end was recorded. */
type Ended = Omit<LeaseEndResult, "lanes"> & { readonly lease?: LeaseRow };

function end(
  rows: LeaseRows,
  order: LeaseEnd,
  { workerId, now }: Pick<LeaseEnds, "workerId" | "now">,
): Ended {
  const { how, sequel } = order;
  const lease = rows.find(order, workerId);
  const decision = decideLeaseEnd(lease, { how, now });
  if (lease === undefined || decision === "lost") return { outcome: "lost", isNew: false };
  if (decision === "cancelled") return { outcome: "cancelled", isNew: false };
  if (decision === "ended before") return { outcome: "ok", isNew: false };
  if (decision === "revive") rows.revive(lease);
  rows.setEnding(lease, how);
  if (decision !== "end in place") rows.follow(lease, sequel);
  return { outcome: "ok", isNew: true, lease };
}

async function resume(
  sql: BatchSql,
  { of, now }: ArgsOf<"resumeLeases">,
): Promise<readonly Lease[]> {
  if (of === "ended nodes" || !(await hasFoundOthers(sql))) {
    const held = await sql.all<LeaseTimes & { seq: number }>(LOCK_HELD);
    const resumed = held.map((times) => resumedLease(times, now));
    sql.send(RESUME_LEASES, [
      held.map(({ seq }) => seq),
      resumed.map(({ claimedAt }) => claimedAt),
      resumed.map(({ deadlineAt }) => deadlineAt),
      resumed.map(({ expiresAt }) => expiresAt),
    ]);
  }
  return await sql.all<Lease>(HELD_LEASES);
}

/** True when another node was alive when this one joined: workers could reach that one. */
async function hasFoundOthers(sql: BatchSql): Promise<boolean> {
  return (await sql.get<{ found: boolean }>(FIND_OTHER_NODE, [sql.nodeSeq]))?.found === true;
}

export function leaseReads(sql: Sql) {
  return {
    async findLeases({ leases, workerId }) {
      const rows = await sql.all<Lease>(FIND_LEASES, [
        leases.map(({ id }) => toUuid(id)),
        workerId,
      ]);
      const byTask = new Map(rows.map((lease) => [lease.id, lease]));
      return leases.map(({ id, leaseId }) => {
        const lease = byTask.get(id);
        return lease?.leaseId === leaseId ? lease : null;
      });
    },

    listDueLeases: ({ now, max }) => sql.all<Lease>(DUE_LEASES, [now, max]),
  } satisfies Partial<Store>;
}

/**
 * The newest leases of tasks: locked, decided on one after the other in memory, and written as a set.
 */

function columnsOf(row: string): string {
  return `
    t.id, ${row}.task_seq AS seq, ${row}.account_seq AS "accountId", ${row}.state, ${row}.runs, ${row}.failures,
    ${row}.started_at AS "startedAt", ${row}.start_at AS "startAt", ${row}.lease_id AS "leaseId",
    ${row}.worker_seq AS "workerSeq", ${row}.lease_ending AS ending, ${row}.losses, ${row}.lease_ms AS "leaseMs",
    ${row}.claimed_at AS "claimedAt", ${row}.deadline_at AS "deadlineAt", ${row}.lease_until AS "expiresAt",
    ${isSuspended(`${row}.account_seq`)} AS "isSuspended"`;
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
    queued_checkpoint = CASE WHEN a.is_queued_again THEN ${MARK} ELSE q.queued_checkpoint END
  FROM unnest(
    $1::bigint[], $2::task_state[], $3::int[], $4::int[], $5::bigint[], $6::bigint[], $7::lease_ending[], $8::int[],
    $9::bigint[], $10::boolean[]
  ) AS a (seq, state, runs, failures, started_at, start_at, ending, losses, lease_until, is_queued_again)
  WHERE q.task_seq = ANY ($1::bigint[]) AND a.seq = q.task_seq + 0`;

/** A task with its newest lease: as it is found, and as the operations of a batch change it. */
interface FoundLease extends LeaseTimes {
  readonly id: string;
  readonly seq: number;
  readonly accountId: number;
  readonly leaseId: string;
  readonly workerSeq: number;
  readonly isSuspended: boolean;
  state: StoredState;
  ending: LeaseEnding | null;
  losses: number;
  expiresAt: number;
  runs: number;
  failures: number;
  startedAt: number | null;
  startAt: number | null;
}

interface LeaseRow extends FoundLease {
  /** How its task ended in this batch. */
  end: RunEnd | null;
  isChanged: boolean;
  isRevived: boolean;
  isQueuedAnew: boolean;
}

/** The leases that the operations of a batch name. */
class LeaseRows {
  readonly #sql: BatchSql;
  readonly #changes: BatchChanges;
  #byTask: ReadonlyMap<string, LeaseRow> = new Map();

  constructor(sql: BatchSql, changes: BatchChanges) {
    this.#sql = sql;
    this.#changes = changes;
  }

  /** Locks the tasks of the given leases. */
  async lock(refs: readonly LeaseRef[]): Promise<void> {
    const ids = [...new Set(refs.map(({ id }) => toUuid(id)))];
    if (ids.length === 0) return;
    const [open, ended] = await Promise.all([
      this.#sql.all<FoundLease>(LOCK_LEASES, [ids]),
      this.#sql.all<FoundLease>(ENDED_LEASES, [ids]),
    ]);
    const unchanged = { end: null, isChanged: false, isRevived: false, isQueuedAnew: false };
    this.#byTask = new Map(
      [...open, ...ended].map((found) => [found.id, { ...found, ...unchanged }]),
    );
  }

  /**
   * The newest lease of a task, if it is this one; a null worker stands for any holder. Another worker's lease and a lease
   * that never existed get the same result, even for a worker that knows its id.
   */
  find({ id, leaseId }: LeaseRef, workerId: number | null): LeaseRow | undefined {
    const row = this.#byTask.get(id);
    const isNamed = row?.leaseId === leaseId && (workerId === null || workerId === row.workerSeq);
    return isNamed ? row : undefined;
  }

  /** Gives the task back to the lease. */
  revive(row: LeaseRow): void {
    row.isChanged = true;
    row.isRevived = true;
    row.runs += runsRevived(row);
    row.state = "running";
    row.startedAt = row.claimedAt;
    row.isQueuedAnew = false;
    this.#changes.counts.move(row.accountId, "queued", "running");
  }

  /** A null ending means that it is held again. Comes after {@link revive}, which reads how it had ended. */
  setEnding(row: LeaseRow, ending: LeaseEnding | null): void {
    row.isChanged = true;
    row.losses = lossesAfter(row, ending);
    row.ending = ending;
  }

  /** Ends the run. */
  follow(row: LeaseRow, sequel: LeaseSequel): void {
    if (sequel.kind === "finish") {
      row.end = sequel;
      row.state = sequel.state;
      return;
    }
    row.state = sequel.kind === "retry" ? "delayed" : "queued";
    row.startedAt = null;
    this.#changes.counts.move(row.accountId, "running", row.state);
    if (sequel.kind === "retry") {
      row.startAt = sequel.startAt;
      row.failures++;
    } else {
      row.isQueuedAnew = true;
      if (!sequel.isRunCounted) row.runs--;
    }
  }

  /** Writes what has become of them. Returns the lanes that now have an attempt due, by the rows of their tasks. */
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
    for (const { end, accountId } of rows) {
      if (end === null) continue;
      const { state, endedAt } = end;
      const bytes = textBytes(end.resultText, end.errorText);
      countFinished(this.#changes, { accountId, from: "running", state, endedAt, bytes });
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
  return { ...end, seq, from: ["running"], lease };
}

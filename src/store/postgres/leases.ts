import {
  decideBeat,
  decideLeaseEnd,
  resumedLease,
  type LeaseTimes,
} from "../../domain/lease/lease.ts";
import type {
  BeatOutcome,
  LaneRef,
  Lease,
  LeaseEnd,
  LeaseEndResult,
  LeaseEnds,
  Store,
  WorkerLeases,
} from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { LeaseClaims } from "./lease-claims.ts";
import { LeaseRows } from "./lease-rows.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type ArgsOf, type SetSteps } from "./steps.ts";
import { toUuid } from "./task-columns.ts";

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
      return ended.map((ends) => ends.map((each) => toResult(each, lanes)));
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
    const decision = decideBeat(lease, { now, isAccountHeld: lease?.isAccountHeld === true });
    if (lease === undefined || decision === "lost") return "lost";
    if (decision === "cancelled") return "cancelled";
    if (decision === "stop") {
      lease.setEnding("cancelled");
      lease.follow({ kind: "requeue", isRunCounted: false });
      return "held";
    }
    if (decision === "revive") {
      lease.revive();
      lease.setEnding(null);
    }
    lease.extend(now);
    return "ok";
  });
}

/** A result whose lanes are known once it is written. */
type Ended = Omit<LeaseEndResult, "lanes"> & {
  /** The task that ended with it. */
  readonly ended: number | null;
};

const LOST: Ended = { outcome: "lost", isNew: false, ended: null };
const CANCELLED: Ended = { outcome: "cancelled", isNew: false, ended: null };
const ENDED_BEFORE: Ended = { outcome: "ok", isNew: false, ended: null };

function end(
  rows: LeaseRows,
  order: LeaseEnd,
  { workerId, now }: Pick<LeaseEnds, "workerId" | "now">,
): Ended {
  const { how, sequel } = order;
  const lease = rows.find(order, workerId);
  const decision = decideLeaseEnd(lease, { how, now });
  if (lease === undefined || decision === "lost") return LOST;
  if (decision === "cancelled") return CANCELLED;
  if (decision === "ended before") return ENDED_BEFORE;
  if (decision === "revive") lease.revive();
  lease.setEnding(how);
  if (decision !== "end in place") lease.follow(sequel);
  return { outcome: "ok", isNew: true, ended: lease.end === null ? null : lease.seq };
}

function toResult(
  { outcome, isNew, ended }: Ended,
  lanes: ReadonlyMap<number, readonly LaneRef[]>,
): LeaseEndResult {
  return { outcome, isNew, lanes: ended === null ? [] : (lanes.get(ended) ?? []) };
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

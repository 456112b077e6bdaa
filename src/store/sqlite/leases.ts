import { newLeaseId } from "../../domain/id.ts";
import type { LeaseRef } from "../../domain/lease/lease.ts";
import type {
  BeatOutcome,
  LaneRef,
  Lease,
  LeaseClaim,
  LeasedTask,
  LeaseEnd,
  LeaseEndResult,
  LeaseEnds,
  LeaseType,
  WorkerLeases,
} from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { isHeld as isAccountHeld } from "./holds.ts";
import type { Connection } from "./machine/connection.ts";
import { taskClaims } from "./task-claims.ts";
import { runEnds, type Run } from "./task-runs.ts";

// All that were claimed at once (measured: 3.4 µs for each instead of 6.3). Losses are the task's, whoever held its
// leases. SQLite takes ON for a join's without the WHERE.
const UPSERT_LEASES = `
  INSERT INTO leases (task_seq, lease_id, worker_seq, claimed_at, lease_ms, deadline_at, expires_at)
  SELECT value ->> 0, value ->> 1, @workerId, @now, @leaseMs, @deadlineAt, @expiresAt
  FROM json_each(@rows)
  WHERE true
  ON CONFLICT (task_seq) DO UPDATE
  SET lease_id = excluded.lease_id, worker_seq = excluded.worker_seq, claimed_at = excluded.claimed_at,
      lease_ms = excluded.lease_ms, deadline_at = excluded.deadline_at,
      expires_at = excluded.expires_at, ending = NULL`;

// Whoever knows the id of another worker's lease is told the same as of one that there never was.
const IS_OF_WORKER = `l.lease_id = @leaseId AND (@workerId IS NULL OR l.worker_seq = @workerId)`;

/** By the task's id, never by its seq: what was erased leaves its seq to another task. */
export const FIND_NEWEST_LEASE = `
  SELECT t.seq, t.account_seq, t.state, l.claimed_at, l.deadline_at, l.expires_at, l.ending,
    ${isAccountHeld("t.account_seq")} AS is_account_held
  FROM tasks AS t CROSS JOIN leases AS l ON l.task_seq = t.seq
  WHERE t.id = @id AND ${IS_OF_WORKER}`;

export const EXTEND_LEASE = `
  UPDATE leases SET expires_at = min(@now + lease_ms, deadline_at) WHERE task_seq = @seq`;

// A worker that is heard after all did not vanish.
const LOSSES = `
  losses = iif(@how = 'failed', 0, losses + (@how = 'expired') - (ending IS 'expired'))`;

export const END_LEASE = `
  UPDATE leases SET ending = @how, ${LOSSES} WHERE task_seq = @seq`;

export const REVIVE_LEASE = `
  UPDATE leases SET ending = NULL, losses = losses - 1 WHERE task_seq = ? AND ending = 'expired'`;

/** A run that its worker has gone on with began when it was claimed; one that was not counted any more is again. */
export const REVIVE_TASK = `
  UPDATE tasks
  SET state = 'running', status_code = 40601, started_at = @startedAt, runs = runs + @uncounted
  WHERE seq = @seq AND state = 'queued'`;

// What is left of the timeout, which is never more than the whole of it; but time enough for a worker to bring what it
// finished while nobody listened.
const DEADLINE_RESUMED = `
  @now + max(
    min(deadline_at - @now, deadline_at - claimed_at),
    min(lease_ms, deadline_at - claimed_at)
  )`;

/** From the claim to the deadline it remains the timeout. */
export const RESUME_LEASES = `
  UPDATE leases INDEXED BY leases_held
  SET claimed_at = claimed_at - deadline_at + ${DEADLINE_RESUMED},
      deadline_at = ${DEADLINE_RESUMED},
      expires_at = @now + min(lease_ms, deadline_at - claimed_at)
  WHERE ending IS NULL`;

const LEASE_COLUMNS = `t.id, t.type, t.failures, l.lease_id, l.losses, l.expires_at, l.deadline_at`;

export const HELD_LEASES = `
  SELECT ${LEASE_COLUMNS}
  FROM leases AS l INDEXED BY leases_held CROSS JOIN tasks AS t ON t.seq = l.task_seq
  WHERE l.ending IS NULL
  ORDER BY l.expires_at`;

export const DUE_LEASES = `
  SELECT ${LEASE_COLUMNS}
  FROM leases AS l INDEXED BY leases_held CROSS JOIN tasks AS t ON t.seq = l.task_seq
  WHERE l.ending IS NULL AND l.expires_at <= @now
  ORDER BY l.expires_at
  LIMIT @max`;

export const FIND_LEASE = `
  SELECT ${LEASE_COLUMNS}
  FROM tasks AS t CROSS JOIN leases AS l ON l.task_seq = t.seq
  WHERE t.id = @id AND ${IS_OF_WORKER}`;

/** A lease as the statements look for it. */
interface NamedLease extends LeaseRef {
  /** Null: whoever holds it. */
  readonly workerId: number | null;
}

interface NewestLease {
  seq: number;
  account_seq: number;
  state: string;
  claimed_at: number;
  deadline_at: number;
  expires_at: number;
  ending: string | null;
  is_account_held: 0 | 1;
}

interface LeaseRow {
  id: string;
  /** Only a refused task may have none, and those are never claimed. */
  type: string;
  failures: number;
  lease_id: string;
  losses: number;
  expires_at: number;
  deadline_at: number;
}

/** The writes on leases. Each runs inside the transaction of its batch. */
export function leaseWrites(connection: Connection, changes: BatchChanges) {
  const revive = leaseRevival(connection, changes);
  const resume = connection.prepare(RESUME_LEASES);
  const held = connection.prepare<[], LeaseRow>(HELD_LEASES);

  return {
    ...claimWrites(connection, changes),
    ...extendWrites(connection, { changes, revive }),
    ...endWrites(connection, { changes, revive }),

    resumeLeases(start: { now: number }): readonly Lease[] {
      resume.run(start);
      return held.all().map(toLease);
    },
  };
}

function claimWrites(connection: Connection, changes: BatchChanges) {
  const claimInTurn = taskClaims(connection, changes);
  const upsert = connection.prepare<[object]>(UPSERT_LEASES);

  function claimType(
    lease: LeaseType,
    { workerId, now, max, inputLength }: LeaseClaim & { readonly inputLength: number },
  ): readonly LeasedTask[] {
    const { type, leaseMs, timeoutMs } = lease;
    const deadlineAt = now + timeoutMs;
    const leaseExpiresAt = Math.min(now + leaseMs, deadlineAt);
    const order = { type, max: Math.min(lease.max, max), now };
    const tasks = claimInTurn(order, inputLength);
    if (tasks.length === 0) return [];
    const leased = tasks.map((task) => ({ ...task, leaseId: newLeaseId(), leaseExpiresAt }));
    const rows = JSON.stringify(leased.map(({ seq, leaseId }) => [seq, leaseId]));
    upsert.run({ workerId, now, leaseMs, deadlineAt, expiresAt: leaseExpiresAt, rows });
    return leased;
  }

  return {
    claimLeases(claim: LeaseClaim): readonly LeasedTask[] {
      const tasks: LeasedTask[] = [];
      for (const type of claim.types) {
        const inputLength = tasks.reduce((sum, task) => sum + (task.inputText?.length ?? 0), 0);
        tasks.push(...claimType(type, { ...claim, max: claim.max - tasks.length, inputLength }));
      }
      return tasks;
    },
  };
}

/** Gives the task of a lease that is over, and that is still queued, back to the lease: its run goes on. */
type Revive = (lease: NewestLease) => void;

function leaseRevival(connection: Connection, { counts }: BatchChanges): Revive {
  const reviveLease = connection.prepare<[number]>(REVIVE_LEASE);
  const reviveTask = connection.prepare<[object]>(REVIVE_TASK);

  return ({ seq, account_seq: accountSeq, claimed_at: startedAt, ending }) => {
    reviveLease.run(seq);
    reviveTask.run({ seq, startedAt, uncounted: ending === "cancelled" ? 1 : 0 });
    counts.move(accountSeq, "queued", "running");
  };
}

/** What the writes on leases share. */
interface LeaseChanges {
  readonly changes: BatchChanges;
  readonly revive: Revive;
}

function extendWrites(connection: Connection, { changes, revive }: LeaseChanges) {
  const find = connection.prepare<[NamedLease], NewestLease>(FIND_NEWEST_LEASE);
  const extend = connection.prepare<[object]>(EXTEND_LEASE);
  const endLease = connection.prepare<[object]>(END_LEASE);
  const { requeue } = runEnds(connection, changes);

  /** Its worker hears of it now: until then it may have been enabled again, and the run gone on. */
  function hold({ seq, account_seq: accountSeq }: NewestLease): BeatOutcome {
    endLease.run({ seq, how: "cancelled" });
    requeue({ seq, accountSeq }, { isRunCounted: false });
    return "held";
  }

  function beat(named: NamedLease, now: number): BeatOutcome {
    const lease = find.get(named);
    if (lease === undefined) return "lost";
    if (lease.state === "cancelled") return "cancelled";
    if (lease.is_account_held === 1) return isHeld(lease) ? hold(lease) : "lost";
    // Past its timeout it would come back to life only to end at once.
    if (isWaiting(lease) && lease.deadline_at > now) revive(lease);
    else if (!isHeld(lease)) return "lost";
    extend.run({ seq: lease.seq, now });
    return "ok";
  }

  return {
    extendLeases({
      leases,
      workerId,
      now,
    }: WorkerLeases & { now: number }): readonly BeatOutcome[] {
      return leases.map(({ id, leaseId }) => beat({ id, leaseId, workerId }, now));
    },
  };
}

const LOST: LeaseEndResult = { outcome: "lost", isNew: false, lanes: [] };
const CANCELLED: LeaseEndResult = { outcome: "cancelled", isNew: false, lanes: [] };
const ENDED_BEFORE: LeaseEndResult = { outcome: "ok", isNew: false, lanes: [] };

function endWrites(connection: Connection, { changes, revive }: LeaseChanges) {
  const find = connection.prepare<[NamedLease], NewestLease>(FIND_NEWEST_LEASE);
  const endLease = connection.prepare<[object]>(END_LEASE);
  const { finish, retry, requeue } = runEnds(connection, changes);

  function endRun(run: Run, { sequel }: LeaseEnd): readonly LaneRef[] {
    switch (sequel.kind) {
      case "finish":
        return finish(run, sequel);
      case "retry":
        retry(run, sequel.startAt);
        return [];
      case "requeue":
        requeue(run, sequel);
        return [];
    }
  }

  function end(order: LeaseEnd, { workerId, now }: Omit<LeaseEnds, "ends">): LeaseEndResult {
    const { id, leaseId, how } = order;
    const lease = find.get({ id, leaseId, workerId });
    if (lease === undefined) return LOST;
    if (lease.state === "cancelled") return CANCELLED;
    if (lease.ending === how) return ENDED_BEFORE;
    if (!mayEnd(lease, how, now)) return LOST;
    const { seq, account_seq: accountSeq } = lease;
    // What ran out and is released is in the queue already.
    const isInPlace = isWaiting(lease) && how === "released";
    if (lease.state === "queued" && !isInPlace) revive(lease);
    endLease.run({ seq, how });
    return {
      outcome: "ok",
      isNew: true,
      lanes: isInPlace ? [] : endRun({ seq, accountSeq }, order),
    };
  }

  return {
    endLeases({ ends, ...by }: LeaseEnds): readonly LeaseEndResult[] {
      return ends.map((order) => end(order, by));
    },
  };
}

function mayEnd(lease: NewestLease, how: LeaseEnd["how"], now: number): boolean {
  const isByDaemon = how === "expired" || how === "timed_out";
  if (isByDaemon) return isHeld(lease) && lease.expires_at <= now;
  return isHeld(lease) || isWaiting(lease) || (isStopped(lease) && how === "completed");
}

function isHeld({ ending, state }: NewestLease): boolean {
  return ending === null && state === "running";
}

/** True for a lease that ran out while nobody has claimed its task again. */
function isWaiting({ ending, state }: NewestLease): boolean {
  return ending === "expired" && state === "queued";
}

/**
 * True for a lease that ended because its account was disabled, while nobody has claimed its task again. Its worker may
 * have been about to bring the result, or not have heard of it.
 */
function isStopped({ ending, state }: NewestLease): boolean {
  return ending === "cancelled" && state === "queued";
}

/** The reads on leases. */
export function leaseReads(connection: Connection) {
  const find = connection.prepare<[NamedLease], LeaseRow>(FIND_LEASE);
  const due = connection.prepare<[object], LeaseRow>(DUE_LEASES);

  return {
    findLeases({ leases, workerId }: WorkerLeases): readonly (Lease | null)[] {
      return leases.map(({ id, leaseId }) => {
        const row = find.get({ id, leaseId, workerId });
        return row === undefined ? null : toLease(row);
      });
    },

    listDueLeases(query: { now: number; max: number }): readonly Lease[] {
      return due.all(query).map(toLease);
    },
  };
}

function toLease(row: LeaseRow): Lease {
  return {
    id: row.id,
    leaseId: row.lease_id,
    type: row.type,
    failures: row.failures,
    losses: row.losses,
    expiresAt: row.expires_at,
    deadlineAt: row.deadline_at,
  };
}

import { leaseExpiry } from "../../domain/lease/lease.ts";
import { BATCH_WEIGHT_MAX } from "../common/write-rule.ts";
import type { LeaseClaim, LeasedTask, LeaseType } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { RunAgain } from "./machine/batch.ts";
import type { BatchSql } from "./machine/sql.ts";
import type { NodeMemory } from "./scan-starts.ts";
import { leaseClaims, TypeTurns } from "./task-claims.ts";

// A row that there is already is not locked by this.
const NOTE_TYPES = `
  INSERT INTO lease_types (type) SELECT unnest($1::text[]) ORDER BY 1 ON CONFLICT (type) DO NOTHING`;

const LOCK_TYPE = `SELECT 1 FROM lease_types WHERE type = $1 FOR UPDATE`;

const SHARE_TYPE = `SELECT 1 FROM lease_types WHERE type = $1 FOR SHARE`;

const COUNT_HELD = `
  SELECT type, count(*) AS held FROM queue
  WHERE lease_id IS NOT NULL AND lease_ending IS NULL AND type = ANY($1::text[])
  GROUP BY type`;

const COUNT_WRITERS = `SELECT count(*) AS writers FROM stripes WHERE node_seq IS NOT NULL`;

/**
 * Claims leases for workers. All nodes together give out no more of a type than its limit allows: each claim locks its
 * types before it counts what is held of them. Near the limit no other node claims of the type until the batch has ended,
 * so the count is exact. Far from it, concurrent claims share the lock, one batch each; together they cannot reach the
 * limit.
 */
export class LeaseClaims {
  readonly #sql: BatchSql;
  readonly #memory: NodeMemory;
  readonly #claimInTurn: ReturnType<typeof leaseClaims>;
  readonly #turns = new TypeTurns();
  /** How many more of each type may be held. */
  readonly #room = new Map<string, number>();

  constructor(sql: BatchSql, changes: BatchChanges) {
    this.#sql = sql;
    this.#memory = changes.memory;
    this.#claimInTurn = leaseClaims(sql, changes);
  }

  async claimAll(claims: readonly LeaseClaim[]): Promise<readonly (readonly LeasedTask[])[]> {
    await this.#count(claims.flatMap(({ types }) => types));
    return await Promise.all(claims.map((claim) => this.#claim(claim)));
  }

  async #claim(claim: LeaseClaim): Promise<readonly LeasedTask[]> {
    const tasks: LeasedTask[] = [];
    let inputLength = 0;
    for (const type of claim.types) {
      const order = { ...claim, max: claim.max - tasks.length, inputLength };
      const claimed = await this.#turns.take(type.type, () => this.#claimType(type, order));
      tasks.push(...claimed.tasks);
      inputLength = claimed.inputLength;
    }
    return tasks;
  }

  async #claimType(
    lease: LeaseType,
    { workerId, now, max, inputLength }: LeaseClaim & { readonly inputLength: number },
  ) {
    const { type, leaseMs, timeoutMs } = lease;
    const deadlineAt = now + timeoutMs;
    const expiresAt = leaseExpiry({ leaseMs, deadlineAt }, now);
    const room = this.#room.get(type) ?? 0;
    const order = { type, max: Math.min(lease.max, max, Math.max(0, room)), now, inputLength };
    const claimed = await this.#claimInTurn({ ...order, workerId, leaseMs, deadlineAt, expiresAt });
    this.#room.set(type, room - claimed.tasks.length);
    return claimed;
  }

  /** Locks types, and counts. Rejects with {@link RunAgain} if a shared lock turns out not to be enough. */
  async #count(types: readonly LeaseType[]): Promise<void> {
    const { leaseTypes, farTypes } = this.#memory;
    // In one order, so that two batches do not wait for each other.
    const limits = [...limitsOf(types)].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const names = limits.map(([type]) => type);
    const fresh = names.filter((type) => !leaseTypes.has(type));
    if (fresh.length > 0) this.#sql.send(NOTE_TYPES, [fresh]);
    // All of it crosses the wire together, and the server runs it in this order: so what is counted, and how many writers
    // there are, is of after the locks.
    const locks = names.map((type) =>
      this.#sql.get(farTypes.has(type) ? SHARE_TYPE : LOCK_TYPE, [type]),
    );
    const [counted, heldRows, ...locked] = await Promise.all([
      this.#sql.get<{ writers: number }>(COUNT_WRITERS),
      this.#sql.all<{ type: string; held: number }>(COUNT_HELD, [names]),
      ...locks,
    ]);
    const isNoted = locked.every((row) => row !== undefined);
    for (const type of names) {
      if (isNoted) leaseTypes.add(type);
      else leaseTypes.delete(type);
    }
    if (!isNoted) throw new RunAgain();
    const held = new Map(heldRows.map((row) => [row.type, row.held]));
    // As much as the batches of all writers under way might claim.
    const together = (counted?.writers ?? 1) * BATCH_WEIGHT_MAX;
    for (const [type, limit] of limits) {
      const room = limit - (held.get(type) ?? 0);
      const isFar = farTypes.has(type);
      this.#room.set(type, isFar ? BATCH_WEIGHT_MAX : room);
      // The next claim, not yet this one. Twice, so that a count that goes up and down changes little.
      if (room >= 2 * together) farTypes.add(type);
      if (!isFar || room >= together) continue;
      farTypes.delete(type);
      throw new RunAgain();
    }
  }
}

/** The limit of each type. */
function limitsOf(types: readonly LeaseType[]): ReadonlyMap<string, number> {
  const limits = new Map<string, number>();
  for (const { type, concurrency } of types) {
    limits.set(type, Math.min(concurrency, limits.get(type) ?? Infinity));
  }
  return limits;
}

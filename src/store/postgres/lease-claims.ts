import { leaseExpiry } from "../../domain/lease/lease.ts";
import { BATCH_WEIGHT_MAX } from "../common/write-weight.ts";
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

/** Claims leases for workers. All nodes together give out no more of a type than its limit allows. */
export class LeaseClaims {
  readonly #claimInTurn: ReturnType<typeof leaseClaims>;
  readonly #turns = new TypeTurns();
  readonly #held: HeldLeases;

  constructor(sql: BatchSql, changes: BatchChanges) {
    this.#claimInTurn = leaseClaims(sql, changes);
    this.#held = new HeldLeases(sql, changes.memory);
  }

  async claimAll(claims: readonly LeaseClaim[]): Promise<readonly (readonly LeasedTask[])[]> {
    await this.#held.count(claims.flatMap(({ types }) => types));
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
    const wanted = Math.min(lease.max, max, this.#held.room(lease));
    const order = { type, max: wanted, now, inputLength };
    const claimed = await this.#claimInTurn({ ...order, workerId, leaseMs, deadlineAt, expiresAt });
    this.#held.add(type, claimed.tasks.length);
    return claimed;
  }
}

/**
 * How many leases are held of each type. Whoever claims of a type has locked it before this counts. Near its limit,
 * nobody else claims of it until the batch has ended, so the count is what there is. Far from it, those who claim at
 * once share the lock, each for a batch: they cannot come to the limit together, whoever of them counted last.
 */
class HeldLeases {
  readonly #sql: BatchSql;
  readonly #memory: NodeMemory;
  readonly #room = new Map<string, number>();

  constructor(sql: BatchSql, memory: NodeMemory) {
    this.#sql = sql;
    this.#memory = memory;
  }

  /** Locks types, and counts. Rejects with {@link RunAgain} where a shared lock turns out not to be enough. */
  async count(types: readonly LeaseType[]): Promise<void> {
    // In one order, so that two batches do not wait for each other.
    const limits = [...limitsOf(types)].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const names = limits.map(([type]) => type);
    const fresh = names.filter((type) => !this.#memory.leaseTypes.has(type));
    if (fresh.length > 0) this.#sql.send(NOTE_TYPES, [fresh]);
    const [counted, heldRows, ...locked] = await this.#lockAndCount(names);
    const isNoted = locked.every((row) => row !== undefined);
    for (const type of names) {
      if (isNoted) this.#memory.leaseTypes.add(type);
      else this.#memory.leaseTypes.delete(type);
    }
    if (!isNoted) throw new RunAgain();
    const held = new Map(heldRows.map(({ type, held }) => [type, held]));
    // As much as the batches of all writers under way might claim.
    const together = (counted?.writers ?? 1) * BATCH_WEIGHT_MAX;
    for (const [type, limit] of limits) {
      this.#decide(type, { room: limit - (held.get(type) ?? 0), together });
    }
  }

  /** How many more of a type may be held. */
  room({ type }: LeaseType): number {
    return Math.max(0, this.#room.get(type) ?? 0);
  }

  add(type: string, leases: number): void {
    this.#room.set(type, (this.#room.get(type) ?? 0) - leases);
  }

  // All of it crosses the wire at once, and the server runs it in this order: so what is counted, and how many writers
  // there are, is of after the locks.
  #lockAndCount(types: readonly string[]) {
    const { farTypes } = this.#memory;
    const locked = types.map((type) =>
      this.#sql.get(farTypes.has(type) ? SHARE_TYPE : LOCK_TYPE, [type]),
    );
    return Promise.all([
      this.#sql.get<{ writers: number }>(COUNT_WRITERS),
      this.#sql.all<{ type: string; held: number }>(COUNT_HELD, [types]),
      ...locked,
    ]);
  }

  #decide(type: string, { room, together }: { readonly room: number; readonly together: number }) {
    const { farTypes } = this.#memory;
    if (!farTypes.has(type)) {
      this.#room.set(type, room);
      // The next claim, not yet this one. Twice, so that a count that goes up and down changes little.
      if (room >= 2 * together) farTypes.add(type);
      return;
    }
    this.#room.set(type, BATCH_WEIGHT_MAX);
    if (room >= together) return;
    farTypes.delete(type);
    throw new RunAgain();
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

import { leaseExpiry } from "../../domain/lease/lease-decision.ts";
import { BATCH_WEIGHT_MAX } from "../common/write-weight.ts";
import type { LeaseClaim, LeasedTask, LeaseType } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql } from "./machine/sql.ts";
import { leaseClaims, TypeTurns } from "./task-claims.ts";

const NOTE_TYPES = `
  INSERT INTO lease_types (type) SELECT unnest($1::text[]) ORDER BY 1 ON CONFLICT (type) DO NOTHING`;

const LOCK_TYPES = `
  SELECT type FROM lease_types WHERE type = ANY($1::text[]) ORDER BY type FOR UPDATE`;

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
    this.#held = new HeldLeases(sql);
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

/** How many leases are held of each type. */
class HeldLeases {
  readonly #sql: BatchSql;
  readonly #held = new Map<string, number>();

  constructor(sql: BatchSql) {
    this.#sql = sql;
  }

  /** Near its limit, whoever claims of a type waits for the others who do: until their batches have ended. */
  async count(types: readonly LeaseType[]): Promise<void> {
    this.#held.clear();
    const [counted] = await Promise.all([
      this.#sql.get<{ writers: number }>(COUNT_WRITERS),
      this.#count(namesOf(types)),
    ]);
    // As much as the batches of all other writers might claim meanwhile.
    const others = Math.max(0, (counted?.writers ?? 1) - 1) * BATCH_WEIGHT_MAX;
    await this.#countLocked(namesOf(types.filter((type) => this.room(type) < others)));
  }

  /** How many more of a type may be held. */
  room({ type, concurrency }: LeaseType): number {
    return Math.max(0, concurrency - (this.#held.get(type) ?? 0));
  }

  add(type: string, leases: number): void {
    this.#held.set(type, (this.#held.get(type) ?? 0) + leases);
  }

  async #countLocked(types: readonly string[]): Promise<void> {
    if (types.length === 0) return;
    const lock = () =>
      Promise.all([this.#sql.all<{ type: string }>(LOCK_TYPES, [types]), this.#count(types)]);
    const [locked] = await lock();
    if (locked.length === types.length) return;
    this.#sql.send(NOTE_TYPES, [types]);
    await lock();
  }

  async #count(types: readonly string[]): Promise<void> {
    if (types.length === 0) return;
    // A type of which none is held has no row.
    for (const type of types) this.#held.set(type, 0);
    const rows = await this.#sql.all<{ type: string; held: number }>(COUNT_HELD, [types]);
    for (const { type, held } of rows) this.#held.set(type, held);
  }
}

function namesOf(types: readonly LeaseType[]): readonly string[] {
  return [...new Set(types.map(({ type }) => type))];
}

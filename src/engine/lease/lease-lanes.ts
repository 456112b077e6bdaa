import type { LeasedTask, LeaseType } from "../../store/store.ts";
import type { HeldLeases } from "./held-leases.ts";

/** A type whose tasks external workers claim. */
export interface WorkerType {
  /** Leases held at once. */
  readonly concurrency: number;
  readonly retries: number;
  /** How long a lease holds without a heartbeat. */
  readonly leaseMs: number;
  /** From the claim to the end of the run. */
  readonly timeoutMs: number;
}

interface Lane extends WorkerType {
  readonly type: string;
  /** How many claims may begin: each may find something. 0 where nothing is queued, as far as is known. */
  credit: number;
  /** How often it was woken, to tell what a claim that found nothing says. */
  wakes: number;
  claimsUnderWay: number;
  /** Leases that the claims under way may bring. */
  reserved: number;
  /** When it was first in a claim the last time, counted in claims. */
  firstAt: number;
}

/** A claim that was begun: what to ask of the store, and what {@link LeaseLanes} must know at its end. */
export interface LaneClaims {
  readonly types: readonly LeaseType[];
  readonly shares: readonly { readonly lane: Lane; readonly max: number; readonly wakes: number }[];
}

// Of one lane. More at once than a commit serves would only wait for the next one.
const CLAIMS_MAX = 64;

/**
 * For each worker type: whether a claim may find something, how many leases it has room for, and whose turn it is.
 *
 * A wake allows one claim. One that comes back full allows two more, so that a long queue soon serves all who wait, and
 * one that finds nothing ends it: a single task costs a claim or three, however many wait for it.
 */
export class LeaseLanes {
  readonly #lanes: ReadonlyMap<string, Lane>;
  readonly #held: HeldLeases;
  #claims = 0;

  constructor(types: ReadonlyMap<string, WorkerType>, held: HeldLeases) {
    this.#held = held;
    const unknown = { credit: 0, wakes: 0, claimsUnderWay: 0, reserved: 0 };
    this.#lanes = new Map(
      [...types].map(([type, of]) => [type, { ...of, type, ...unknown, firstAt: 0 }]),
    );
  }

  get types(): Iterable<string> {
    return this.#lanes.keys();
  }

  /** Tells that there may be queued tasks of a type; another kind's types are passed over. */
  wake(type: string): void {
    const lane = this.#lanes.get(type);
    if (lane === undefined) return;
    lane.wakes++;
    allow(lane, 1);
  }

  /** True when a claim of this type may find something and has room for it. */
  canClaim(type: string): boolean {
    const lane = this.#lanes.get(type);
    return lane !== undefined && lane.credit > 0 && this.#room(lane) > 0;
  }

  /** True when it will soon be known better whether there is work. */
  isClaiming(type: string): boolean {
    return (this.#lanes.get(type)?.claimsUnderWay ?? 0) > 0;
  }

  /** Begins a claim of those of the types that may have work, the one first that has waited longest to be the first. */
  begin({ types, max }: { readonly types: readonly string[]; readonly max: number }): LaneClaims {
    const lanes = types
      .filter((type) => this.canClaim(type))
      .flatMap((type) => this.#lanes.get(type) ?? [])
      .sort((a, b) => a.firstAt - b.firstAt);
    const [first] = lanes;
    if (first !== undefined) first.firstAt = ++this.#claims;
    const shares = lanes.map((lane) => ({
      ...{ lane, wakes: lane.wakes },
      max: Math.min(max, this.#room(lane)),
    }));
    for (const share of shares) {
      share.lane.credit--;
      share.lane.claimsUnderWay++;
      share.lane.reserved += share.max;
    }
    return { shares, types: shares.map(({ lane, max: of }) => toLeaseType(lane, of)) };
  }

  /** Ends a claim with what it brought. What of it is held is to be noted in the same turn. */
  end({ shares }: LaneClaims, tasks: readonly LeasedTask[]): void {
    for (const { lane, max, wakes } of shares) {
      lane.claimsUnderWay--;
      lane.reserved -= max;
      const own = tasks.filter(({ type }) => type === lane.type);
      // A claim that brought anything may have stopped short of the rest.
      if (tasks.length > 0) allow(lane, own.length === max ? 2 : 1);
      else lane.credit = Math.min(lane.credit, lane.wakes - wakes);
    }
  }

  /** Ends a claim that the store could not do: nothing is known. */
  fail({ shares }: LaneClaims): void {
    for (const { lane, max } of shares) {
      lane.claimsUnderWay--;
      lane.reserved -= max;
      allow(lane, 1);
    }
  }

  #room(lane: Lane): number {
    return lane.concurrency - this.#held.countOf(lane.type) - lane.reserved;
  }
}

function allow(lane: Lane, claims: number): void {
  lane.credit = Math.min(lane.credit + claims, CLAIMS_MAX);
}

function toLeaseType(lane: Lane, max: number): LeaseType {
  const { type, leaseMs, timeoutMs } = lane;
  return { type, max, leaseMs, timeoutMs };
}

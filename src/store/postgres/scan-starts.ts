import { MINUTE_MS } from "../../domain/clock/duration.ts";
import type { Lane, LaneRef } from "../store.ts";
import { firstSeqOf } from "./machine/sql.ts";

/**
 * A part of the accounts of a type, in a statement: those above one and up to another. A part with a floor is one
 * account, of which tasks of the usual priority are looked for from the floor on, and below it only those that were
 * queued later than they were posted (`queue_returned`).
 */
export interface QueuePart {
  readonly above: number;
  readonly upTo: number;
  readonly floor: number | null;
}

/**
 * From which task on a node looks for queued ones, by type and account. Claims pass over what was claimed before; while
 * anybody holds an old snapshot the server must keep all of that, and without a floor each claim would walk through it.
 *
 * A floor delays and never decides: it is learnt from claims that have committed, and what it hides is found by the claim
 * that comes a minute later. That is a task whose post was committed very late, and one that somebody held while it was
 * passed over, and let go.
 */
export class QueueFloors {
  readonly #now: () => number;
  readonly #types = new Map<string, TypeFloors>();
  /** Counts how often everything was forgotten. */
  #life = 0;

  /** `now` is the clock by which tasks are numbered. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Forgets all of it: tasks may wait below that were passed over because somebody held them. */
  forget(): void {
    this.#types.clear();
    this.#life++;
  }

  /** For a claim of the type. */
  look(type: string): QueueLook {
    const now = this.#now();
    const known = this.#known(type, now);
    const isCareful = known === undefined || now - known.carefulAt >= CAREFUL_EVERY_MS;
    if (known !== undefined && isCareful) known.carefulAt = now;
    const life = this.#life;
    const floors = floorsAt(known, now - (isCareful ? COMMIT_MS_MAX : COMMIT_MS));
    const adopt = (learnt: ReadonlyMap<number, number>): void => {
      if (this.#life === life) this.#adopt(type, learnt, now);
    };
    return new QueueLook({ floors, seq: firstSeqOf(now), adopt });
  }

  /** The parts to look at for queued tasks of the type, whoever posted them. */
  partsOf(type: string): readonly QueuePart[] {
    const now = this.#now();
    return partsFrom(0, floorsAt(this.#known(type, now), now - COMMIT_MS_MAX));
  }

  #known(type: string, now: number): TypeFloors | undefined {
    const known = this.#types.get(type);
    if (known === undefined) return undefined;
    // Also when the clock was set back.
    const isYoung = now >= known.carefulAt && now - known.since < WHOLE_EVERY_MS;
    if (isYoung) return known;
    this.#types.delete(type);
    return undefined;
  }

  #adopt(type: string, learnt: ReadonlyMap<number, number>, now: number): void {
    const { floors } = this.#known(type, now) ?? this.#begin(type, now);
    for (const [account, seq] of learnt) {
      const floor = Math.max(seq, floors.get(account) ?? 0);
      // Those that were claimed last come last.
      floors.delete(account);
      floors.set(account, floor);
      const [oldest] = floors.keys();
      if (floors.size > ACCOUNTS_MAX && oldest !== undefined) floors.delete(oldest);
    }
  }

  #begin(type: string, now: number): TypeFloors {
    const begun = { since: now, carefulAt: now, floors: new Map<number, number>() };
    this.#types.set(type, begun);
    return begun;
  }
}

interface TypeFloors {
  /** When all tasks of the type were looked at. */
  readonly since: number;
  /** When late commits were looked for last. */
  carefulAt: number;
  /** By account. */
  readonly floors: Map<number, number>;
}

// Each costs every claim of its type some seeks. Accounts that are not among them are walked through as a whole.
const ACCOUNTS_MAX = 32;

/** Above the seq of every account. */
const LAST_ACCOUNT = Number.MAX_SAFE_INTEGER;

interface LookParts {
  readonly floors: ReadonlyMap<number, number>;
  readonly seq: number;
  readonly adopt: (learnt: ReadonlyMap<number, number>) => void;
}

/** The part of a queue that one claim passes over, and what it learns. */
export class QueueLook {
  readonly #floors: ReadonlyMap<number, number>;
  /** Nothing was numbered above it when the claim began. */
  readonly #seq: number;
  readonly #learnt = new Map<number, number>();
  readonly #adopt: LookParts["adopt"];

  constructor({ floors, seq, adopt }: LookParts) {
    this.#floors = floors;
    this.#seq = seq;
    this.#adopt = adopt;
  }

  /** All accounts: those after the given one, then those up to it. */
  partsAfter(account: number): readonly QueuePart[] {
    return partsFrom(account, this.#floors);
  }

  /** These accounts, as parts. */
  partsOf(accounts: readonly number[]): readonly QueuePart[] {
    return accounts.map((account) => ({
      above: account - 1,
      upTo: account,
      floor: this.#learnt.get(account) ?? this.#floors.get(account) ?? 0,
    }));
  }

  /** An account was given all tasks of the usual priority up to this one. */
  givenUpTo(account: number, seq: number): void {
    const floor = Math.max(seq + 1, this.#floors.get(account) ?? 0);
    this.#learnt.set(account, Math.min(floor, this.#seq));
  }

  /** An account has nothing left. */
  emptied(account: number): void {
    this.#learnt.set(account, this.#seq);
  }

  /** No account has anything but these. */
  emptiedAllBut(accounts: ReadonlySet<number>): void {
    for (const account of this.#floors.keys()) if (!accounts.has(account)) this.emptied(account);
  }

  /** The claim has committed. */
  readonly committed = (): void => this.#adopt(this.#learnt);
}

function floorsAt(known: TypeFloors | undefined, time: number): ReadonlyMap<number, number> {
  const latest = firstSeqOf(time);
  const floors = [...(known?.floors ?? [])].toSorted(([a], [b]) => a - b);
  return new Map(floors.map(([account, floor]) => [account, Math.min(floor, latest)]));
}

/** `floors` are in the order of their accounts. */
function partsFrom(first: number, floors: ReadonlyMap<number, number>): readonly QueuePart[] {
  const above = [...floors].filter(([account]) => account > first);
  const upTo = [...floors].filter(([account]) => account <= first);
  return [...partsBetween(first, LAST_ACCOUNT, above), ...partsBetween(0, first, upTo)];
}

function partsBetween(
  first: number,
  last: number,
  floors: readonly (readonly [account: number, floor: number])[],
): readonly QueuePart[] {
  const parts: QueuePart[] = [];
  let above = first;
  for (const [account, floor] of floors) {
    parts.push({ above, upTo: account - 1, floor: null });
    parts.push({ above: account - 1, upTo: account, floor });
    above = account;
  }
  parts.push({ above, upTo: last, floor: null });
  return parts.filter((part) => part.above < part.upTo);
}

/** The parts as the columns of an `unnest`. */
export function partColumns(parts: readonly QueuePart[]) {
  return [
    parts.map(({ above }) => above),
    parts.map(({ upTo }) => upTo),
    parts.map(({ floor }) => floor),
  ] as const;
}

const QUEUED_OF = `SELECT 1 FROM queue AS f WHERE f.state = 'queued' AND f.type =`;

/** In a statement: whether tasks of a type wait at the account of a part `s` with a floor. */
export function waitsAboveFloor(type: string): string {
  const ofAccount = `${QUEUED_OF} ${type} AND f.account_seq = s.up_to`;
  return `(
    EXISTS (${ofAccount} AND f.priority = 0 AND f.task_seq >= s.floor)
    OR EXISTS (${ofAccount} AND f.priority > 0)
    OR EXISTS (${ofAccount} AND f.priority = 0 AND f.queued_mark IS NOT NULL AND f.task_seq < s.floor)
  )`;
}

/** The same of a part without. */
export function waitsAnywhere(type: string): string {
  return `EXISTS (${QUEUED_OF} ${type} AND f.account_seq > s.above AND f.account_seq <= s.up_to)`;
}

/** In one lane: from which due time on attempts of a retry count are looked for. */
export interface LaneFloor {
  readonly retry: number;
  readonly dueAt: number;
}

/**
 * From which due time on a node looks for scheduled attempts, by lane and retry count: as `QueueFloors` for tasks, and
 * for the same reason. What was scheduled for an earlier time and became visible later is told of by the look at what
 * became due, each second, or by that at all lanes, each minute: either has the lane forgotten.
 */
export class LaneFloors {
  readonly #lanes = new Map<string, KnownLane>();
  #life = 0;

  /** Forgets all of it. */
  forget(): void {
    this.#lanes.clear();
    this.#life++;
  }

  /**
   * These lanes have something scheduled: forgets those of which it was not known. What was due from a time on that is
   * given, claims find by themselves.
   */
  found(lanes: readonly Lane[], foundFrom = Infinity): void {
    for (const lane of lanes) {
      const known = this.#lanes.get(keyOf(lane));
      const earliest = Math.min(lane.freshDueAt ?? Infinity, lane.retryDueAt ?? Infinity);
      if (known === undefined || earliest >= foundFrom) continue;
      if ([...known.floors.values()].some((dueAt) => earliest < dueAt)) this.#forgetLane(lane);
    }
  }

  /** This node schedules an attempt in a lane: forgets the lane if claims would not find it by themselves. */
  scheduled(lane: LaneRef, dueAt: number): void {
    const floors = this.#lanes.get(keyOf(lane))?.floors.values() ?? [];
    if ([...floors].some((floor) => dueAt < floor - COMMIT_MS_MAX)) this.#forgetLane(lane);
  }

  #forgetLane(lane: LaneRef): void {
    this.#lanes.delete(keyOf(lane));
    this.#life++;
  }

  /** For a claim of these lanes. */
  look(lanes: readonly LaneRef[], now: number): LaneLook {
    const life = this.#life;
    const floors = lanes.map((lane) => this.#floorsOf(lane, now));
    return {
      floors,
      learn: (place, left) => {
        const lane = lanes[place];
        if (lane === undefined || this.#life !== life) return;
        this.#learn(lane, { known: floors[place] ?? [], left, now });
      },
    };
  }

  #floorsOf(lane: LaneRef, now: number): readonly LaneFloor[] {
    const known = this.#lanes.get(keyOf(lane));
    if (known === undefined) return [];
    // Also when the clock was set back.
    if (now < known.carefulAt || now - known.since >= WHOLE_EVERY_MS) {
      this.#lanes.delete(keyOf(lane));
      return [];
    }
    const isCareful = now - known.carefulAt >= CAREFUL_EVERY_MS;
    if (isCareful) known.carefulAt = now;
    const latest = now - (isCareful ? COMMIT_MS_MAX : COMMIT_MS);
    return [...known.floors].map(([retry, dueAt]) => ({ retry, dueAt: Math.min(dueAt, latest) }));
  }

  #learn(lane: LaneRef, { known, left, now }: Learnt): void {
    const key = keyOf(lane);
    const { since, carefulAt } = this.#lanes.get(key) ?? { since: now, carefulAt: now };
    const floors = new Map(known.map(({ retry }) => [retry, now]));
    for (const { retry, dueAt } of left) floors.set(retry, Math.min(dueAt ?? now, now));
    // Those that were claimed last come last.
    this.#lanes.delete(key);
    this.#lanes.set(key, { since, carefulAt, floors });
    const [oldest] = this.#lanes.keys();
    if (this.#lanes.size > LANES_MAX && oldest !== undefined) this.#lanes.delete(oldest);
  }
}

/** The attempts that one claim passes over, and how it tells what it has learnt, once it has committed. */
export interface LaneLook {
  /** Of each lane. */
  readonly floors: readonly (readonly LaneFloor[])[];
  /** The attempts that a lane has left of each retry count that was met; null where all of it was taken. */
  learn(place: number, left: readonly LeftOfRetry[]): void;
}

export interface LeftOfRetry {
  readonly retry: number;
  readonly dueAt: number | null;
}

interface KnownLane {
  /** When all of the lane was looked at. */
  readonly since: number;
  /** When late commits were looked for last. */
  carefulAt: number;
  /** By retry count. */
  readonly floors: ReadonlyMap<number, number>;
}

interface Learnt {
  readonly known: readonly LaneFloor[];
  readonly left: readonly LeftOfRetry[];
  readonly now: number;
}

const LANES_MAX = 1000;

function keyOf({ accountId, host }: LaneRef): string {
  return `${accountId} ${host}`;
}

/** The floors as the columns of an `unnest`: places from 1, retry counts, due times. */
export function floorColumns({ floors }: LaneLook) {
  const all = floors.flatMap((ofLane, i) => ofLane.map((floor) => ({ ...floor, place: i + 1 })));
  return [
    all.map(({ place }) => place),
    all.map(({ retry }) => retry),
    all.map(({ dueAt }) => dueAt),
  ] as const;
}

/** Up to when floors reach: what is later than this before now is looked at by every claim. */

// The rows of a batch become visible later than they are numbered and timed: mostly by some milliseconds, by as much as
// this while a server is slow.
export const COMMIT_MS = 1000;

// As long as a commit may take, unless a standby is waited for. What lies between the two is looked at so often.
export const COMMIT_MS_MAX = 10_000;
export const CAREFUL_EVERY_MS = 1000;

/** So often a claim looks at all there is. */
export const WHOLE_EVERY_MS = MINUTE_MS;

/** The memory of a node, for its writer connections: whoever loses it loses turns and time, never truth. */
export class NodeMemory {
  /** The account of the last turn, by type. */
  readonly served = new Map<string, number>();
  /** The types of leases that the database knows. */
  readonly leaseTypes = new Set<string>();
  /** Those of which, when they were counted last, far fewer leases were held than may be. */
  readonly farTypes = new Set<string>();
  readonly queueFloors: QueueFloors;
  readonly laneFloors = new LaneFloors();

  /** `now` is the clock of the node's database. */
  constructor(now: () => number) {
    this.queueFloors = new QueueFloors(now);
  }

  /** A claim was undone: others may have passed over what it held. */
  forgetFloors(): void {
    this.queueFloors.forget();
    this.laneFloors.forget();
  }
}

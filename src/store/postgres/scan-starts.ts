import { MINUTE_MS } from "../../domain/clock/duration.ts";
import type { Lane, LaneRef } from "../store.ts";
import { firstSeqOf } from "./machine/sql.ts";

/**
 * Scan starts: the lowest positions from which a node looks for waiting work. Claims skip the dead rows of earlier claims.
 * While any session holds an old snapshot, PostgreSQL must keep these rows, and each claim would read them all.
 *
 * A start can delay work and never lose it. It is learned from committed claims, and once a minute a claim ignores it. That
 * claim finds rows that were committed very late, and rows that another claim locked and released.
 */

// The rows of a batch become visible later than they get their number and time: mostly by milliseconds, at most by this
// on a slow server. Every claim reads the positions after it.
const COMMIT_MS = 1000;

// The longest time of a commit without standbys. The positions between both bounds are read this often.
export const COMMIT_MS_MAX = 10_000;
const CAREFUL_EVERY_MS = 1000;

/** How often a claim ignores the starts. */
const WHOLE_EVERY_MS = MINUTE_MS;

/** The starts of a type or a lane. */
interface Known {
  /** Time of the last claim that ignored the starts. */
  readonly since: number;
  /** Time of the last search for late commits. */
  carefulAt: number;
  /** By account, or by retry count, in the order of the claims. */
  readonly starts: ReadonlyMap<number, number>;
}

const KEYS_MAX = 1000;

class ScanStarts {
  readonly #known = new Map<string, Known>();
  /** Rises when starts are forgotten: a claim that began before does not store its starts. */
  life = 0;

  /** Forgets a type or a lane, or all. */
  forget(key?: string): void {
    if (key === undefined) this.#known.clear();
    else this.#known.delete(key);
    this.life++;
  }

  get(key: string): ReadonlyMap<number, number> {
    return this.#known.get(key)?.starts ?? new Map();
  }

  /** The starts for a read, none of them after a position where rows may still appear. */
  find(
    key: string,
    now: number,
    { placeAt, isClaim }: { readonly placeAt: (time: number) => number; readonly isClaim: boolean },
  ): ReadonlyMap<number, number> {
    const known = this.#known.get(key);
    if (known === undefined) return new Map();
    // Also when the clock was set back.
    if (now < known.carefulAt || now - known.since >= WHOLE_EVERY_MS) {
      this.#known.delete(key);
      return new Map();
    }
    const isCareful = !isClaim || now - known.carefulAt >= CAREFUL_EVERY_MS;
    if (isClaim && isCareful) known.carefulAt = now;
    const latest = placeAt(now - (isCareful ? COMMIT_MS_MAX : COMMIT_MS));
    return new Map(
      Array.from(known.starts, ([of, start]) => [of, Math.min(start, latest)] as const),
    );
  }

  keep(key: string, starts: ReadonlyMap<number, number>, now: number): void {
    const { since, carefulAt } = this.#known.get(key) ?? { since: now, carefulAt: now };
    this.#known.delete(key);
    this.#known.set(key, { since, carefulAt, starts });
    dropOldest(this.#known, KEYS_MAX);
  }
}

function dropOldest<Key>(map: Map<Key, unknown>, max: number): void {
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
}

/**
 * A range of accounts of a type, in a statement. A part with a start is one account: its tasks of the usual priority are
 * searched from the start. Below the start only tasks that were queued after their post are searched (`queue_returned`).
 */
export interface QueuePart {
  readonly above: number;
  readonly upTo: number;
  readonly start: number | null;
}

// Each part costs every claim of its type some seeks. All other accounts are scanned entirely.
const ACCOUNTS_MAX = 32;

/** The scan starts of queued tasks, by type and account. */
class QueueStarts {
  readonly #now: () => number;
  readonly #starts = new ScanStarts();

  constructor(now: () => number) {
    this.#now = now;
  }

  forget(): void {
    this.#starts.forget();
  }

  /** For a claim of the type. */
  look(type: string): QueueLook {
    const now = this.#now();
    const { life } = this.#starts;
    const starts = inOrder(this.#starts.find(type, now, { placeAt: firstSeqOf, isClaim: true }));
    // No task had a higher number when the claim began.
    const top = firstSeqOf(now);
    const learned = new Map<number, number>();
    return {
      partsAfter: (account) => partsFrom(account, starts),
      partsOf: (accounts) =>
        accounts.map((account) => ({
          above: account - 1,
          upTo: account,
          start: learned.get(account) ?? starts.get(account) ?? 0,
        })),
      givenUpTo: (account, seq) =>
        void learned.set(account, Math.min(Math.max(seq + 1, starts.get(account) ?? 0), top)),
      emptied: (account) => void learned.set(account, top),
      emptiedAllBut(accounts) {
        for (const account of starts.keys()) if (!accounts.has(account)) learned.set(account, top);
      },
      committed: () => {
        if (this.#starts.life === life) this.#keep(type, learned, now);
      },
    };
  }

  #keep(type: string, learned: ReadonlyMap<number, number>, now: number): void {
    const kept = new Map(this.#starts.get(type));
    for (const [account, seq] of learned) {
      const start = Math.max(seq, kept.get(account) ?? 0);
      kept.delete(account);
      kept.set(account, start);
      dropOldest(kept, ACCOUNTS_MAX);
    }
    this.#starts.keep(type, kept, now);
  }

  /** The parts to scan for queued tasks of the type, of all nodes. */
  partsOf(type: string): readonly QueuePart[] {
    const of = { placeAt: firstSeqOf, isClaim: false };
    return partsFrom(0, inOrder(this.#starts.find(type, this.#now(), of)));
  }
}

/** The parts that one claim scans, and the starts that it learns. */
export interface QueueLook {
  /** All accounts: those after the given one, then those up to it. */
  partsAfter(account: number): readonly QueuePart[];
  /** These accounts, as parts. */
  partsOf(accounts: readonly number[]): readonly QueuePart[];
  /** An account was given all tasks of the usual priority up to this one. */
  givenUpTo(account: number, seq: number): void;
  /** An account has nothing left. */
  emptied(account: number): void;
  /** No account has anything but these. */
  emptiedAllBut(accounts: ReadonlySet<number>): void;
  /** The claim has committed. */
  committed(): void;
}

function inOrder(starts: ReadonlyMap<number, number>): ReadonlyMap<number, number> {
  return new Map([...starts].toSorted(([a], [b]) => a - b));
}

/** `starts` are in the order of their accounts. */
function partsFrom(first: number, starts: ReadonlyMap<number, number>): readonly QueuePart[] {
  const between = (from: number, to: number): readonly QueuePart[] => {
    const parts: QueuePart[] = [];
    let above = from;
    for (const [account, start] of starts) {
      if (account <= from || account > to) continue;
      parts.push({ above, upTo: account - 1, start: null });
      parts.push({ above: account - 1, upTo: account, start });
      above = account;
    }
    parts.push({ above, upTo: to, start: null });
    return parts.filter((part) => part.above < part.upTo);
  };
  return [...between(first, Number.MAX_SAFE_INTEGER), ...between(0, first)];
}

/** The parts as the columns of an `unnest`. */
export function partColumns(parts: readonly QueuePart[]) {
  return [
    parts.map(({ above }) => above),
    parts.map(({ upTo }) => upTo),
    parts.map(({ start }) => start),
  ] as const;
}

const QUEUED_OF = `SELECT 1 FROM queue AS f WHERE f.state = 'queued' AND f.type =`;

/** In a statement: whether tasks of a type wait at the account of a part `s` with a start. */
export function waitsFromStart(type: string): string {
  const ofAccount = `${QUEUED_OF} ${type} AND f.account_seq = s.up_to`;
  return `(
    EXISTS (${ofAccount} AND f.priority = 0 AND f.task_seq >= s.start)
    OR EXISTS (${ofAccount} AND f.priority > 0)
    OR EXISTS (${ofAccount} AND f.priority = 0 AND f.queued_checkpoint IS NOT NULL AND f.task_seq < s.start)
  )`;
}

/** The same of a part without a start. */
export function waitsAnywhere(type: string): string {
  return `EXISTS (${QUEUED_OF} ${type} AND f.account_seq > s.above AND f.account_seq <= s.up_to)`;
}

/** Of a retry count: the due time of attempts. As learned, null if all of it was taken. */
export interface RetryStart<Due = number> {
  readonly retry: number;
  readonly dueAt: Due;
}

/**
 * The scan starts of scheduled attempts: due times by lane and retry count. Attempts committed late with an
 * earlier due time are found by the due scan (each second) or the full lane scan (each minute); both forget the lane.
 */
class LaneStarts {
  readonly #starts = new ScanStarts();

  forget(): void {
    this.#starts.forget();
  }

  /** Forgets each lane whose earliest attempt lies before its start. Claims find attempts from `foundFrom` on themselves. */
  found(lanes: readonly Lane[], foundFrom = Infinity): void {
    for (const lane of lanes) {
      const earliest = Math.min(lane.freshDueAt ?? Infinity, lane.retryDueAt ?? Infinity);
      if (earliest < foundFrom) this.#forgetIf(lane, (start) => earliest < start);
    }
  }

  /** Forgets the lane of a newly scheduled attempt if claims would not find the attempt. */
  scheduled(lane: LaneRef, dueAt: number): void {
    this.#forgetIf(lane, (start) => dueAt < start - COMMIT_MS_MAX);
  }

  #forgetIf(lane: LaneRef, isHidden: (start: number) => boolean): void {
    const key = keyOf(lane);
    if ([...this.#starts.get(key).values()].some(isHidden)) this.#starts.forget(key);
  }

  /** For a claim of these lanes. */
  look(lanes: readonly LaneRef[], now: number): LaneLook {
    const { life } = this.#starts;
    const of = { placeAt: (time: number) => time, isClaim: true };
    const starts = lanes.map((lane) =>
      Array.from(this.#starts.find(keyOf(lane), now, of), ([retry, dueAt]) => ({ retry, dueAt })),
    );
    const learned = new Map<number, readonly RetryStart<number | null>[]>();
    return {
      starts,
      learn: (place, left) => void learned.set(place, left),
      committed: () => {
        if (this.#starts.life !== life) return;
        for (const [place, lane] of lanes.entries()) {
          const left = learned.get(place);
          if (left === undefined) continue;
          const kept = new Map<number, number>();
          for (const { retry } of starts[place] ?? []) kept.set(retry, now);
          for (const { retry, dueAt } of left) kept.set(retry, Math.min(dueAt ?? now, now));
          this.#starts.keep(keyOf(lane), kept, now);
        }
      },
    };
  }
}

/** The attempts that one claim skips, and the starts that it learns. */
export interface LaneLook {
  /** Of each lane. */
  readonly starts: readonly (readonly RetryStart[])[];
  /** The attempts that a lane has left of each retry count that was met. */
  learn(place: number, left: readonly RetryStart<number | null>[]): void;
  /** The claim has committed. */
  committed(): void;
}

function keyOf({ accountId, host }: LaneRef): string {
  return `${accountId} ${host}`;
}

/** The starts as the columns of an `unnest`: places from 1, retry counts, due times. */
export function startColumns({ starts }: LaneLook) {
  const all = starts.flatMap((ofLane, i) => ofLane.map((start) => ({ ...start, place: i + 1 })));
  return [
    all.map(({ place }) => place),
    all.map(({ retry }) => retry),
    all.map(({ dueAt }) => dueAt),
  ] as const;
}

/** The memory of a node, for its writer connections. Its loss costs order and time, never work. */
export class NodeMemory {
  /** The account of the last turn, by type. */
  readonly served = new Map<string, number>();
  /** The types of leases that the database knows. */
  readonly leaseTypes = new Set<string>();
  /** The types that held far fewer leases than their limit at the last count. */
  readonly farTypes = new Set<string>();
  readonly queueStarts: QueueStarts;
  readonly laneStarts = new LaneStarts();

  /** `now` is the clock of the node's database, by which tasks are numbered. */
  constructor(now: () => number) {
    this.queueStarts = new QueueStarts(now);
  }

  /** A claim was undone, or accounts were enabled: claims may have passed over tasks and attempts that now wait. */
  forgetStarts(): void {
    this.queueStarts.forget();
    this.laneStarts.forget();
  }
}

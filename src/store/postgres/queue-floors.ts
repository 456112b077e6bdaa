import { CAREFUL_EVERY_MS, COMMIT_MS, COMMIT_MS_MAX, WHOLE_EVERY_MS } from "./floor-times.ts";
import { firstSeqOf } from "./machine/seq.ts";

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

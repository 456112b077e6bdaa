import { setImmediate } from "../../domain/clock/timers.ts";
import { StoreError } from "../store.ts";

/** The owner of a read: an account, by its id or login; null for the operator and the daemon itself. */
export type ReadOwner = number | string | null;

export function byAccount({ accountId }: { readonly accountId: number }): ReadOwner {
  return accountId;
}

export function byScope({ scope }: { readonly scope: number | null }): ReadOwner {
  return scope;
}

// One is read while the next is on its way: the thread never waits for this one.
const UNDER_WAY_MAX = 2;
// For one owner: a client that hangs up leaves the reads behind that it asked for.
const WAITING_MAX = 1000;

/** Calls back when the event loop has gone round and everything that precedes reads has had its turn. */
export type GiveWay = (callback: () => void) => void;

const GO_ROUND: GiveWay = (callback) => void setImmediate(callback);

/**
 * Owners of reads take turns: one read of each, in the order in which they came. Another owner waits for at most one
 * read, however many reads one owner requests concurrently. Between two reads the event loop goes round: the result of
 * a read may occupy the main thread as long as the read occupied the other one, and requests must get in between.
 */
export class ReadTurns {
  /** The waiting owners, in the order of their turns, each with at least one read. */
  readonly #lines = new Map<ReadOwner, (() => void)[]>();
  readonly #whenIdle: (() => void)[] = [];
  readonly #giveWay: GiveWay;
  #underWay = 0;

  constructor(giveWay = GO_ROUND) {
    this.#giveWay = giveWay;
  }

  /** Begins a read when it is its owner's turn. Rejects with `overloaded` when too many reads of this owner wait. */
  async take<Value>(owner: ReadOwner, read: () => Promise<Value>): Promise<Value> {
    if (this.#underWay < UNDER_WAY_MAX) this.#underWay++;
    else await this.#wait(owner);
    try {
      return await read();
    } finally {
      this.#giveWay(() => this.#next());
    }
  }

  /** Settles when nothing is under way and nothing waits. */
  async idle(): Promise<void> {
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #wait(owner: ReadOwner): Promise<void> {
    const line = this.#lines.get(owner) ?? [];
    if (line.length >= WAITING_MAX) {
      throw new StoreError("overloaded", "too many reads wait: repeat the request later");
    }
    this.#lines.set(owner, line);
    return new Promise((resolve) => line.push(resolve));
  }

  #next(): void {
    const [first] = this.#lines;
    if (first === undefined) {
      this.#underWay--;
      if (this.#underWay === 0) for (const resolve of this.#whenIdle.splice(0)) resolve();
      return;
    }
    const [owner, line] = first;
    this.#lines.delete(owner);
    const begin = line.shift();
    if (line.length > 0) this.#lines.set(owner, line);
    begin?.();
  }
}

/**
 * Shares a read among callers in one turn of the event loop, and forgets it before the next turn takes in
 * anything from a socket. Not a cache: a request that is sent after a change was committed comes in with a
 * later turn. It is here because the first read after any commit costs SQLite its page cache (measured:
 * 58 µs against 15 µs), and 64 busy connections of one client bring some twenty requests a turn.
 */
export class TurnMemo<Value> {
  readonly #values = new Map<string, { readonly value: Value }>();

  get(key: string, read: () => Value): Value {
    const known = this.#values.get(key);
    if (known !== undefined) return known.value;
    const value = read();
    if (this.#values.size === 0) setImmediate(() => this.forget());
    this.#values.set(key, { value });
    return value;
  }

  forget(): void {
    this.#values.clear();
  }
}

import { StoreError } from "../store.ts";

/** Whose a read is: an account's, by its id or login; null is the operator and the daemon itself. */
export type ReadOwner = number | string | null;

// One is read while the next is on its way: the thread never waits for this one.
const UNDER_WAY_MAX = 2;
// Of one owner: who hangs up leaves the reads behind that were asked for.
const WAITING_MAX = 1000;

/** Calls back when the event loop has gone round, and whatever goes before reads has had its turn. */
export type GiveWay = (callback: () => void) => void;

const GO_ROUND: GiveWay = (callback) => void setImmediate(callback);

/**
 * Reads take turns by their owner: one of each, in the order in which they came. However much somebody asks for at once,
 * nobody else waits for more than one of it. Between two reads the event loop goes round: what comes of a read may take
 * the main thread as long as the read took the other one, and requests must get in between.
 */
export class ReadTurns {
  /** Who waits, in the order of their turns, each with at least one read. */
  readonly #lines = new Map<ReadOwner, (() => void)[]>();
  readonly #whenIdle: (() => void)[] = [];
  readonly #giveWay: GiveWay;
  #underWay = 0;

  constructor(giveWay = GO_ROUND) {
    this.#giveWay = giveWay;
  }

  /** Begins a read when it is its owner's turn. Rejects with `overloaded` where too many of this owner wait. */
  async take<Value>(owner: ReadOwner, read: () => Promise<Value>): Promise<Value> {
    if (this.#underWay < UNDER_WAY_MAX) this.#underWay++;
    else await this.#wait(owner);
    try {
      return await read();
    } finally {
      this.#giveWay(() => this.#next());
    }
  }

  /** Settles when nothing is under way, and nothing waits. */
  async idle(): Promise<void> {
    if (this.#underWay === 0) return;
    await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #wait(owner: ReadOwner): Promise<void> {
    const line = this.#lines.get(owner) ?? [];
    if (line.length >= WAITING_MAX) {
      throw new StoreError("overloaded", "too many reads wait: ask again later");
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

import type { Server } from "node:http";

import { performanceNow, setImmediate } from "../../domain/clock/timers.ts";

export interface EventLoop {
  /** In milliseconds; only differences mean something. */
  now(): number;
  /** Calls back when the loop goes round; a call from such a callback waits for the next time. */
  goRound(callback: () => void): void;
}

export const EVENT_LOOP: EventLoop = {
  now: () => performanceNow(),
  goRound: (callback) => void setImmediate(callback),
};

/**
 * How long connections are let in before everything else has its turn, and how long that turn takes. Node lets in one
 * connection per turn of the event loop: behind every piece of work of some milliseconds, one of thousands gets in.
 * With 8 and 5, requests had too little time where connections never ceased to come (p50 of everybody 1.9 s instead
 * of 0.6, measured with all attacks of `npm run bench -- siege` at once), and the rows of connections alone are no
 * worse with these.
 */
const ARRIVALS_MS = 3;
const OTHERS_MS = 10;

/**
 * Counts the connections that come in, by turns of the event loop. While they come in one after the other, work that
 * can wait takes turns with them: for {@link ARRIVALS_MS} the loop goes round for them, then for {@link OTHERS_MS}
 * for the rest.
 */
export class Arrivals {
  readonly #loop: EventLoop;
  #hasCome = false;
  #hadCome = false;
  #isFlowing = false;
  #isLooking = false;
  #areOn = false;
  #changeAt = 0;

  constructor(loop: EventLoop = EVENT_LOOP) {
    this.#loop = loop;
  }

  follow(server: Server): void {
    server.prependListener("connection", () => this.note());
  }

  note(): void {
    this.#hasCome = true;
    if (!this.#isLooking) this.#look();
  }

  /** Whether work that can wait must wait now: for another turn of the loop, after which it asks again. */
  haveTheirTurn(): boolean {
    if (!this.#isFlowing) return false;
    const now = this.#loop.now();
    if (now >= this.#changeAt) {
      this.#areOn = !this.#areOn;
      this.#changeAt = now + (this.#areOn ? ARRIVALS_MS : OTHERS_MS);
    }
    return this.#areOn;
  }

  /** Calls back when the loop has gone round and the connections have had their turn. */
  afterwards(callback: () => void): void {
    this.#loop.goRound(() => {
      if (this.haveTheirTurn()) this.afterwards(callback);
      else callback();
    });
  }

  // A single connection holds up nobody: more will come only when two turns in a row had one each.
  #look(): void {
    this.#isLooking = true;
    this.#loop.goRound(() => {
      this.#isLooking = false;
      this.#isFlowing = this.#hasCome && this.#hadCome;
      this.#hadCome = this.#hasCome;
      this.#hasCome = false;
      if (this.#hadCome) this.#look();
      if (this.#isFlowing) return;
      this.#areOn = false;
      this.#changeAt = 0;
    });
  }
}

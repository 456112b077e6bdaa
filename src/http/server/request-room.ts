import type { IncomingMessage } from "node:http";

import type { StatusError } from "../../domain/status.ts";
import type { BodyRoom } from "../body.ts";
import type { CallRoom, WholeAnswer } from "../operation.ts";
import type { Waiter, WaitPlaces } from "../wait-places.ts";
import type { ByteBudget, ByteHold } from "./byte-budget.ts";
import { connectionOf } from "./client-connection.ts";

export interface SharedRoom {
  readonly budget: ByteBudget;
  readonly waits: WaitPlaces;
}

export interface Roomed {
  readonly request: IncomingMessage;
  /** The holder of its room: an account, a worker, or an address. */
  readonly holder: string;
  readonly gone: () => AbortSignal;
}

/**
 * The size that an answer counts as until it exists: most are far smaller, and lists of a thousand tasks are about
 * this.
 */
export const ANSWER_BYTES_GUESS = 1024 ** 2;
// A text is in memory twice while it is sent: as it was made, and as the bytes that the kernel has not taken yet.
const TEXT_COPIES = 2;

/** The part of the common room that one request takes, from the first byte of its body to the last of its answer. */
export class RequestRoom implements BodyRoom, CallRoom {
  readonly #shared: SharedRoom;
  readonly #roomed: Roomed;
  readonly #hold: ByteHold;
  #letGo: (() => void) | null = null;
  #isEnded = false;

  constructor(shared: SharedRoom, roomed: Roomed) {
    this.#shared = shared;
    this.#roomed = roomed;
    this.#hold = shared.budget.open(roomed.holder);
  }

  takeNow(bytes: number): boolean {
    return this.#hold.takeNow(bytes);
  }

  take(bytes: number): Promise<void> {
    return this.#hold.take(bytes, this.#roomed.gone);
  }

  set(bytes: number): void {
    this.#hold.set(bytes);
  }

  async forAnswer(): Promise<void> {
    if (!this.takeNow(ANSWER_BYTES_GUESS)) await this.take(ANSWER_BYTES_GUESS);
  }

  /** The answer exists; a stream takes a place among those that wait. Throws 42900 where there is none. */
  answered({ text, bytes, stream }: WholeAnswer, isHead: boolean): void {
    this.set(bytes?.length ?? text.length * TEXT_COPIES);
    if (stream !== undefined && !isHead && !this.#isEnded) this.#letGo = this.#beginWait();
  }

  waitRefusal(): StatusError | null {
    return this.#shared.waits.refusal(this.#waiter());
  }

  async whileWaiting<T>(begin: () => Promise<T>): Promise<T> {
    const letGo = this.#beginWait();
    this.set(0);
    try {
      return await begin();
    } finally {
      letGo();
    }
  }

  /** Gives back everything: the answer has gone, or the client has. */
  end(): void {
    this.#isEnded = true;
    this.#letGo?.();
    this.#hold.end();
  }

  #waiter(): Waiter {
    const { request, holder } = this.#roomed;
    return { holder, address: connectionOf(request)?.address ?? holder };
  }

  #beginWait(): () => void {
    const letGo = this.#shared.waits.take(this.#waiter());
    const connection = connectionOf(this.#roomed.request);
    if (connection !== null) connection.isWaiting = true;
    return () => {
      letGo();
      if (connection !== null) connection.isWaiting = false;
    };
  }
}

import type { Clock } from "../../../domain/clock/clock.ts";
import type { Operation } from "../../common/batch.ts";
import { StoreError } from "../../store-error.ts";

export interface ClientWaitsParts {
  readonly clock: Clock;
  /** How long a client waits for its write. */
  readonly msMax: number;
  /** True while the server does not answer: then nobody need wait to learn it. */
  readonly isOutOfReach: () => boolean;
}

/** A client's write that was not answered yet. */
interface Waiting {
  /** True once a batch with it was sent and it is not known that nothing of it was written. */
  isUnderWay: boolean;
  /** Its client was told something: it is not written any more if it can be helped. */
  isGivenUp: boolean;
}

/**
 * Lets clients wait no longer than some seconds for a server that does not answer, while the node's own writes wait on:
 * a client can come again. Whoever is told `unreachable` can be sure that nothing was written nor will be; whoever is
 * told `unknown` cannot.
 */
export class ClientWaits {
  readonly #parts: ClientWaitsParts;
  /** By the arguments of each operation. */
  readonly #waiting = new Map<unknown, Waiting>();

  constructor(parts: ClientWaitsParts) {
    this.#parts = parts;
  }

  /** Waits for a write of these arguments, which no other write may have. */
  async wait<Value>(args: object, submit: () => Promise<Value>): Promise<Value> {
    if (this.#parts.isOutOfReach()) throw unreachable();
    const waiting: Waiting = { isUnderWay: false, isGivenUp: false };
    this.#waiting.set(args, waiting);
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = this.#parts.clock.setTimer(this.#parts.msMax, () => {
      waiting.isGivenUp = true;
      reject(waiting.isUnderWay ? unknown() : unreachable());
    });
    const written = submit().finally(() => {
      timer.cancel();
      this.#waiting.delete(args);
    });
    return await Promise.race([written, promise]);
  }

  /** Tells that a batch is about to be sent. Answers the places of those operations that are still waited for. */
  begin(batch: readonly Operation[]): readonly number[] | "all" {
    let isWhole = true;
    for (const { args } of batch) {
      const waiting = this.#waiting.get(args);
      if (waiting === undefined) continue;
      if (waiting.isGivenUp) isWhole = false;
      else waiting.isUnderWay = true;
    }
    if (isWhole) return "all";
    return [...batch.keys()].filter((i) => !this.#waiting.get(batch[i]?.args)?.isGivenUp);
  }

  /** Tells that nothing of a batch was written. */
  undone(batch: readonly Operation[]): void {
    for (const { args } of batch) {
      const waiting = this.#waiting.get(args);
      if (waiting !== undefined) waiting.isUnderWay = false;
    }
  }
}

function unreachable(): StoreError {
  return new StoreError("unreachable", "the database does not answer");
}

function unknown(): StoreError {
  const text = "whether this was written is not known; look before you repeat it";
  return new StoreError("unknown", `${text}: the database does not answer`);
}

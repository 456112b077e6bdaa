import { type Clock, wait } from "../../../domain/clock/clock.ts";
import { MINUTE_MS } from "../../../domain/clock/duration.ts";
import { messageOf } from "../../../domain/error.ts";
import type { Logger } from "../../../domain/log.ts";
import { isPassing } from "./batch.ts";
import { ConnectionLost } from "./connection.ts";
import type { NodeLife } from "./writer.ts";

/** A life that is awaited, or has begun. */
export interface AwaitedLife extends PromiseWithResolvers<NodeLife> {
  begun: NodeLife | null;
}

export function newAwaitedLife(): AwaitedLife {
  return { ...Promise.withResolvers<NodeLife>(), begun: null };
}

const PAUSE_MS_MIN = 250;
const PAUSE_MS_MAX = 30_000;
// A node that has gone on for this long begins with a short pause again.
const FORGET_MS = 5 * MINUTE_MS;

interface RejoinParts {
  readonly clock: Clock;
  readonly log: Logger | undefined;
}

/** How a node joins again: after a pause that doubles with each failure soon after another. */
export class Rejoin {
  readonly #parts: RejoinParts;
  /** Aborted when the node leaves. */
  readonly #closing: AbortSignal;
  #pauseMs = 0;
  /** Monotonic. */
  #failedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: RejoinParts, closing: AbortSignal) {
    this.#parts = parts;
    this.#closing = closing;
  }

  /** A life, or an attempt to join, failed now. */
  noteFailure(): void {
    const now = this.#parts.clock.monotonic();
    if (now - this.#failedAt > FORGET_MS) this.#pauseMs = 0;
    this.#pauseMs = Math.min(Math.max(2 * this.#pauseMs, PAUSE_MS_MIN), PAUSE_MS_MAX);
    this.#failedAt = now;
  }

  /** Joins after the pause, and rejects as `join` does. Returns without joining once the node leaves. */
  async try(join: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#parts;
    const signal = this.#closing;
    const leftMs = Math.max(0, this.#failedAt + this.#pauseMs - clock.monotonic());
    await wait(leftMs, { clock, signal });
    if (signal.aborted) return;
    try {
      await join();
    } catch (error) {
      // A database that restarts is back soon. Any other reason concerns the operator.
      if (signal.aborted || error instanceof ConnectionLost || isPassing(error)) throw error;
      this.noteFailure();
      log?.warn({ reason: messageOf(error) }, "this node cannot join again yet; it tries on");
      throw error;
    }
    log?.info({}, "this node joined again");
  }
}

import { type Clock, wait } from "../../../domain/clock/clock.ts";
import { MINUTE_MS } from "../../../domain/clock/duration.ts";
import { messageOf } from "../../../domain/error.ts";
import type { Logger } from "../../../domain/log.ts";
import { isPassing } from "./batch.ts";
import type { LastCommits } from "./commits.ts";
import { ConnectionLost } from "./connection.ts";
import { type Dialer, ENDER } from "./dialer.ts";
import { type BeatAnswer, endExpired } from "./heartbeat.ts";

/** The readings of the machine's clocks at one moment. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
  readonly uptime: number;
}

/**
 * Returns true if the other nodes may declare this node dead, because its last successful heartbeat started too long
 * ago. Computed at each call, so the first call after a pause of the process returns the truth.
 */
export class Lifeline {
  readonly #clock: Clock;
  readonly #msMax: number;
  #heard: Moment | null = null;

  constructor(clock: Clock, msMax: number) {
    this.#clock = clock;
    this.#msMax = msMax;
  }

  /** The beginning of a heartbeat, to be given to {@link hold} when it was answered. */
  begin(): Moment {
    const clock = this.#clock;
    return { monotonic: clock.monotonic(), wall: clock.now(), uptime: clock.uptime() };
  }

  hold(begun: Moment): void {
    this.#heard = begun;
  }

  /** From now on it is cut, until it is held again. */
  cut(): void {
    this.#heard = null;
  }

  get isCut(): boolean {
    return this.leftMs <= 0;
  }

  /** How long it remains valid without a heartbeat. */
  get leftMs(): number {
    return this.#heard === null ? 0 : this.#msMax - this.#passedMs(this.#heard);
  }

  /** The time since the last heartbeat. */
  get silentMs(): number {
    return this.#heard === null ? Infinity : this.#passedMs(this.#heard);
  }

  #passedMs({ monotonic, wall, uptime }: Moment): number {
    const passedMs = this.#clock.monotonic() - monotonic;
    // The monotonic clock stands still while a machine sleeps. The uptime, which does not, costs 10 µs: it is read when
    // the wall clock says that it may matter.
    if (passedMs > this.#msMax || this.#clock.now() - wall <= this.#msMax) return passedMs;
    return Math.max(passedMs, this.#clock.uptime() - uptime);
  }
}

/** A life of a node, from its joining to its end. */
export interface NodeLife extends LastCommits {
  readonly nodeSeq: number;
  readonly lastCommits: Map<number, string>;
  /** One for each writer connection. */
  readonly stripes: readonly number[];
  nextSeq(): number;
}

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

interface NodeEnderParts {
  readonly dialer: Dialer;
  readonly log: Logger | undefined;
  /** Nodes have ended: what they left can be taken up. */
  readonly ended: () => void;
}

/** Ends nodes without a recent heartbeat. It runs next to the heartbeats, because it may have to wait. */
export class NodeEnder {
  readonly #parts: NodeEnderParts;
  #also: readonly number[] = [];
  #isBusy = false;

  constructor(parts: NodeEnderParts) {
    this.#parts = parts;
  }

  /** The lives of this node that are over and not known to be ended. */
  get also(): readonly number[] {
    return this.#also;
  }

  /** A life of this node is over: the others need not wait until it is taken for dead. */
  endAlso(nodeSeq: number): void {
    this.#also = [...this.#also, nodeSeq];
  }

  /** Processes a heartbeat's response. Ends expired nodes only if the clock is trusted. */
  look({ nodes, sample }: BeatAnswer, isClockTrusted: boolean): void {
    const late = nodes.filter(({ expiresAt }) => isClockTrusted && expiresAt < sample.shown);
    const isDue = this.#also.length > 0 || late.length > 0;
    if (!isDue || this.#isBusy) return;
    this.#isBusy = true;
    const { log } = this.#parts;
    void this.#end(late.map(({ seq }) => seq))
      // The next heartbeat finds them again.
      .catch((error: unknown) => log?.debug({ reason: messageOf(error) }, "ended no nodes"))
      .finally(() => {
        this.#isBusy = false;
      });
  }

  async #end(expired: readonly number[]): Promise<void> {
    const { dialer, log, ended } = this.#parts;
    const also = this.#also;
    const connection = await dialer.reach(ENDER);
    try {
      const nodes = await endExpired(connection, { now: also, expired });
      this.#also = this.#also.filter((seq) => !also.includes(seq));
      for (const { seq, name } of nodes) {
        log?.warn({ node: String(seq), name }, "a node sent no heartbeat, and was ended");
      }
      // If another node does this now, the next check is at the next heartbeat.
      if (nodes.length > 0) ended();
    } finally {
      await connection.close();
    }
  }
}

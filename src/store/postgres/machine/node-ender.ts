import { messageOf } from "../../../domain/error.ts";
import type { Logger } from "../../../domain/log.ts";
import type { Dialer, Session } from "./dialer.ts";
import { endExpired, type BeatAnswer } from "./heartbeat.ts";

/**
 * Joins, leaves and ends nodes. To take a dead node's stripes away waits for its batch under way, which the server ends
 * after 10 s. Nodes come and go while no standby answers: who is lost in a failover finds no row of itself, and what
 * they write later is on no disk without this.
 */
export const ENDER: Session = { deadlineMs: 15_000, statementMs: 0, lockMs: 0, mayLose: true };

export interface NodeEnderParts {
  readonly dialer: Dialer;
  readonly log: Logger | undefined;
  /** Nodes have ended: what they left can be taken up. */
  readonly ended: () => void;
  /** Who lives is another matter now: a heartbeat tells. */
  readonly done: () => void;
}

/** Ends nodes that were not heard for too long: beside the heartbeats, because it may have to wait. */
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

  /** A life of this node is over: nobody need wait until it is taken for dead. */
  endAlso(nodeSeq: number): void {
    this.#also = [...this.#also, nodeSeq];
  }

  /** Looks at what a heartbeat was answered; whose time is over it believes only where the clock is trusted. */
  look({ nodes, sample }: BeatAnswer, { isClockTrusted }: { isClockTrusted: boolean }): void {
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
    const { dialer, log, ended, done } = this.#parts;
    const also = this.#also;
    const connection = await dialer.reach(ENDER);
    try {
      const nodes = await endExpired(connection, { now: also, expired });
      this.#also = this.#also.filter((seq) => !also.includes(seq));
      for (const { seq, name } of nodes) {
        log?.warn({ node: String(seq), name }, "a node was not heard, and has ended");
      }
      // Where another node is at it, there is nothing to look at before the next heartbeat.
      if (nodes.length > 0) {
        ended();
        done();
      }
    } finally {
      await connection.close();
    }
  }
}

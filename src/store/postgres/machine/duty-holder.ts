import type { Duty } from "../../cluster.ts";
import type { Connection } from "./connection.ts";
import { DUTIES, planDuties } from "./duties.ts";
import { holdDuties, releaseDuties, type BeatAnswer } from "./heartbeat.ts";

/** The view of a node that renews its duties. */
export interface DutyTurn {
  readonly nodeSeq: number;
  readonly answer: BeatAnswer;
  readonly members: readonly string[];
  /** True at the first look after a node has joined. */
  readonly hasGrown: boolean;
  /** False for a while after the database's clock was set. */
  readonly isClockTrusted: boolean;
}

/** The duties of a node, renewed with its heartbeats. */
export class DutyHolder {
  readonly #beatMs: number;
  readonly #liveMs: number;
  #isResigning = false;
  #held: readonly Duty[] = [];

  constructor({ beatMs, liveMs }: { readonly beatMs: number; readonly liveMs: number }) {
    this.#beatMs = beatMs;
    this.#liveMs = liveMs;
  }

  get held(): readonly Duty[] {
    return this.#held;
  }

  get isResigning(): boolean {
    return this.#isResigning;
  }

  /** From now on it gives its duties to others, if there are any. */
  resign(): void {
    this.#isResigning = true;
  }

  /** It is no member any more. */
  drop(): void {
    this.#held = [];
  }

  async renew(
    connection: Connection,
    { nodeSeq, answer, members, hasGrown, isClockTrusted }: DutyTurn,
  ): Promise<void> {
    const { hold, release } = planDuties({
      duties: answer.duties,
      self: nodeSeq,
      // One that is leaving is no longer among them.
      members: new Set([...members, String(nodeSeq)]).size,
      hasGrown,
      isClockTrusted,
      isResigning: this.#isResigning,
      now: answer.sample.shown,
      patienceMs: 2.5 * this.#beatMs,
    });
    const [held] = await Promise.all([
      holdDuties(connection, { nodeSeq, names: hold, ms: this.#liveMs }),
      releaseDuties(connection, { nodeSeq, names: release }),
    ]);
    this.#held = DUTIES.filter((duty) => held.includes(duty));
  }
}

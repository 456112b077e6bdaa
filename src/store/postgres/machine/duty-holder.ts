import type { Duty } from "../../cluster.ts";
import type { Connection } from "./connection.ts";
import { DUTIES, planDuties } from "./duties.ts";
import { holdDuties, releaseDuties, type BeatAnswer } from "./heartbeat.ts";

/** What a node sees when it renews its duties. */
export interface DutyTurn {
  readonly nodeSeq: number;
  readonly answer: BeatAnswer;
  readonly members: readonly string[];
  /** True at the first look after a node has joined. */
  readonly hasGrown: boolean;
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
    { nodeSeq, answer, members, hasGrown }: DutyTurn,
  ): Promise<void> {
    const { hold, release } = planDuties({
      duties: answer.duties,
      self: nodeSeq,
      members: members.length,
      hasGrown,
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

import { NODE_ROLES, type NodeRole } from "../../cluster.ts";
import type { Connection } from "./connection.ts";
import type { BeatAnswer } from "./heartbeat.ts";
import { planRoles } from "./role-plan.ts";
import { holdRoles, releaseRoles } from "./role-rows.ts";

/** The view of a node that renews its roles. */
export interface RoleTurn {
  readonly nodeSeq: number;
  readonly answer: BeatAnswer;
  readonly members: readonly string[];
  /** True at the first look after a node has joined. */
  readonly hasGrown: boolean;
  /** False for a while after the database's clock was set. */
  readonly isClockTrusted: boolean;
}

/** The roles of a node, renewed with its heartbeats. */
export class RoleHolder {
  readonly #beatMs: number;
  readonly #liveMs: number;
  #isResigning = false;
  #held: readonly NodeRole[] = [];

  constructor({ beatMs, liveMs }: { readonly beatMs: number; readonly liveMs: number }) {
    this.#beatMs = beatMs;
    this.#liveMs = liveMs;
  }

  get held(): readonly NodeRole[] {
    return this.#held;
  }

  get isResigning(): boolean {
    return this.#isResigning;
  }

  /** From now on it gives its roles to others, if there are any. */
  resign(): void {
    this.#isResigning = true;
  }

  /** It is no member any more. */
  drop(): void {
    this.#held = [];
  }

  async renew(
    connection: Connection,
    { nodeSeq, answer, members, hasGrown, isClockTrusted }: RoleTurn,
  ): Promise<void> {
    const { hold, release } = planRoles({
      roles: answer.roles,
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
      holdRoles(connection, { nodeSeq, names: hold, ms: this.#liveMs }),
      releaseRoles(connection, { nodeSeq, names: release }),
    ]);
    this.#held = NODE_ROLES.filter((role) => held.includes(role));
  }
}

import type { Clock } from "../../domain/clock/clock.ts";
import { NODE_ROLES, type Cluster, type NodeFacts, type NodeSummary } from "../store.ts";

/** A cluster of one node, which can be shown. */
export interface LoneNode extends Cluster {
  summary(who: Pick<NodeSummary, "name" | "version">): NodeSummary;
}

/** A cluster of one node: it holds every role and goes by its own clock, and nothing of that ever changes. */
export function newLoneNode(clock: Clock): LoneNode {
  const self = crypto.randomUUID();
  const members = [self];
  const joinedAt = clock.now();
  let facts: () => NodeFacts | null = () => null;
  return {
    self,
    isShared: false,
    membership: () => members,
    isMember: () => true,
    onChange: () => () => {},
    holds: () => true,
    resign() {},
    rejoin() {},
    tellFacts(source) {
      facts = source;
    },
    clock,
    summary: (who) => ({
      id: self,
      ...who,
      joinedAt,
      lastSeenAt: clock.now(),
      endedAt: null,
      isLost: false,
      roles: NODE_ROLES,
      facts: facts(),
    }),
  };
}

import type { Clock } from "../../domain/clock/clock.ts";
import type { Cluster } from "../store.ts";

/** A cluster of one node: it holds every duty and goes by its own clock, and nothing of that ever changes. */
export function newLoneNode(clock: Clock): Cluster {
  const self = crypto.randomUUID();
  const members = [self];
  return {
    self,
    membership: () => members,
    onChange: () => () => {},
    holds: () => true,
    clock,
  };
}

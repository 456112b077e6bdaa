import type { AttemptResult } from "../domain/webhook/delivery.ts";
import type { LaneRef } from "../store/store.ts";
import type { AttemptClass } from "./lane-places.ts";

/** How an attempt held its place: `quick` gave it back soon, `slow` was waited for, `unknown` tells nothing. */
export type Pace = "quick" | "slow" | "unknown";

/** An attempt that has ended: what it held, and how. */
export interface EndedAttempt extends LaneRef {
  readonly class: AttemptClass;
  readonly bytes: number;
  readonly pace: Pace;
}

// A lane that fails more slowly than this holds places that others could use. A receiver that takes its time and
// delivers is welcome, for a while.
const SLOW_FAILURE_MS = 1000;
const SLOW_DELIVERY_MS = 5000;

/** How an attempt that ended so held its place. */
export function toPace(outcome: AttemptResult["outcome"], tookMs: number): Pace {
  if (outcome === "refused" || outcome === "interrupted") return "unknown";
  const slowMs = outcome === "delivered" ? SLOW_DELIVERY_MS : SLOW_FAILURE_MS;
  return outcome !== "timed_out" && tookMs < slowMs ? "quick" : "slow";
}

const FIRST_WAIT_MS = 1000;
const WAIT_MS_MAX = 60_000;

/** The sequel of a run that failed or timed out: another run at a time, or the end. */
export type RunDecision =
  | { readonly kind: "again"; readonly startAt: number }
  | { readonly kind: "final" };

/**
 * Decides whether a failed run is tried again (contract §6): `retries` times, 1 s after the first failure, with a wait
 * that doubles up to 60 s. Runs lost in a crash of the daemon are not failures and use up no retries.
 */
export function decideRun(facts: {
  readonly failuresBefore: number;
  readonly retries: number;
  readonly endedAt: number;
}): RunDecision {
  const { failuresBefore, retries, endedAt } = facts;
  if (failuresBefore >= retries) return { kind: "final" };
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** failuresBefore, WAIT_MS_MAX);
  return { kind: "again", startAt: endedAt + waitMs };
}

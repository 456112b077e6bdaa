import { MINUTE_MS } from "../../domain/clock/duration.ts";
/** Up to when floors reach: what is later than this before now is looked at by every claim. */

// The rows of a batch become visible later than they are numbered and timed: mostly by some milliseconds, by as much as
// this while a server is slow.
export const COMMIT_MS = 1000;

// As long as a commit may take, unless a standby is waited for. What lies between the two is looked at so often.
export const COMMIT_MS_MAX = 10_000;
export const CAREFUL_EVERY_MS = 1000;

/** So often a claim looks at all there is. */
export const WHOLE_EVERY_MS = MINUTE_MS;

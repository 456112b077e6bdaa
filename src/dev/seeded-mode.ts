import { seedRandom } from "../domain/random.ts";
import { DevClock, type ClockMode } from "./dev-clock.ts";
import { DevMode } from "./dev-mode.ts";

// Tests that repeat begin at the same time.
const SEEDED_START = Date.UTC(2026, 0, 1);

/** Makes what a daemon for development needs. With a seed, whatever this process draws at random repeats. */
export function seededMode(given: {
  readonly clock: ClockMode;
  /** Null for a run like no other. */
  readonly seed: number | null;
}): DevMode {
  const { clock: mode, seed } = given;
  if (seed === null) return new DevMode({ clock: new DevClock({ mode }), isRepeatable: false });
  seedRandom(seed);
  const clock = new DevClock({ mode, startAt: SEEDED_START });
  return new DevMode({ clock, isRepeatable: true });
}

import { seedRandom } from "../domain/id.ts";
import { DevClock, type ClockMode } from "./dev-clock.ts";
import { DevMode } from "./dev-mode.ts";

// Tests that repeat begin at the same time.
const SEEDED_START = Date.UTC(2026, 0, 1);

/** The clock and the parts of a daemon for development. */
export interface SeededMode {
  readonly dev: DevMode;
  /** Ends its clock; from then on nobody can guess any more what this process draws at random. */
  readonly close: () => void;
}

/** Makes it. With a seed, whatever this process draws at random repeats, until it is closed. */
export function seededMode(given: {
  readonly clock: ClockMode;
  /** Null for a run like no other. */
  readonly seed: number | null;
}): SeededMode {
  const { clock: mode, seed } = given;
  const clock =
    seed === null ? new DevClock({ mode }) : new DevClock({ mode, startAt: SEEDED_START });
  const unseed = seed === null ? null : seedRandom(seed);
  const close = (): void => {
    clock.close();
    unseed?.();
  };
  return { dev: new DevMode({ clock, isRepeatable: seed !== null }), close };
}

import type { DaemonPlace } from "../kit/daemon-file.ts";
import { inTurn } from "../kit/in-turn.ts";
import { deliverPhase } from "./deliver-phase.ts";
import type { Effort, Phase, Slice } from "./phase.ts";
import { barePhase, postPhase } from "./post-phase.ts";
import type { PhaseResult } from "./report.ts";

/** The order of a measurement. */
export interface Measurement {
  readonly place: DaemonPlace;
  readonly effort: Effort;
  readonly rounds: number;
  /** Of {@link PHASE_LETTERS}. */
  readonly letters: readonly string[];
  /** Called with every measurement as soon as it is done. */
  readonly onSlice: (phase: Phase, slice: Slice) => void;
}

type PhaseStart = (place: DaemonPlace, effort: Effort) => Promise<Phase>;

// In the order they are measured.
const PHASES: Readonly<Record<string, PhaseStart>> = {
  a: barePhase,
  b: (place, effort) => {
    const title = `task_post one by one, ${effort.connections} connections`;
    return postPhase({ letter: "b", title, tasksPerRequest: 1, type: "parked" }, { place, effort });
  },
  // As (b), but the same machine runs the tasks at the same time.
  "b+": (place, effort) => {
    const title = "as (b), tasks run by echo meanwhile";
    return postPhase({ letter: "b+", title, tasksPerRequest: 1, type: "echo" }, { place, effort });
  },
  c: (place, effort) => {
    const options = { ...effort, connections: Math.ceil(effort.connections / 4) };
    const title = `task_post by 100, ${options.connections} connections`;
    const phase = { letter: "c", title, tasksPerRequest: 100, type: "parked" } as const;
    return postPhase(phase, { place, effort: options });
  },
  d: (place, effort) => {
    const title = "post → echo → signed postback → recorded";
    return deliverPhase({ letter: "d", title, tasksPerRequest: 1 }, { place, effort });
  },
  "d+": (place, effort) => {
    const options = { ...effort, connections: 1 };
    const title = "as (d), posted by 100";
    const phase = { letter: "d+", title, tasksPerRequest: 100 };
    return deliverPhase(phase, { place, effort: options });
  },
};

/** The phases by their letters, in the order they are measured. */
export const PHASE_LETTERS: readonly string[] = Object.keys(PHASES);

/**
 * Starts the phases, each with a server and a database of its own, and measures them in turn.
 */
export async function measurePhases(measurement: Measurement): Promise<readonly PhaseResult[]> {
  const { letters, place, effort, rounds, onSlice } = measurement;
  await using stack = new AsyncDisposableStack();
  const phases: Phase[] = [];
  for (const [letter, start] of Object.entries(PHASES)) {
    if (!letters.includes(letter)) continue;
    phases.push(stack.use(await start(place, effort)));
  }
  const measured = await inTurn(phases, {
    rounds,
    uncounted: 1,
    onResult: onSlice,
    measure: (phase) => phase.measure(),
  });
  return measured.map(({ leg: { letter, title }, results: slices }) => ({ letter, title, slices }));
}

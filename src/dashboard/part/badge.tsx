/** Shows a state in one colour and one word: the word says everything, the colour only helps. */

type Tone = "good" | "bad" | "warn" | "busy" | "idle";

const TONES: Readonly<Record<string, Tone>> = {
  completed: "good",
  delivered: "good",
  operational: "good",
  active: "good",
  valid: "good",
  failed: "bad",
  given_up: "bad",
  refused: "bad",
  timed_out: "bad",
  down: "bad",
  lost: "bad",
  disabled: "bad",
  invalid: "bad",
  error: "bad",
  retrying: "warn",
  paused: "warn",
  next: "warn",
  degraded: "warn",
  rotating: "warn",
  warn: "warn",
  interrupted: "warn",
  scheduled: "warn",
  running: "busy",
  in_flight: "busy",
  queued: "idle",
  waiting: "idle",
  cancelled: "idle",
};

/** A state's word: `given_up` is "given up". */
export function stateText(state: string): string {
  return state.replaceAll("_", " ");
}

interface Scheduled {
  readonly state: string;
  readonly is_paused: boolean;
}

/** The state of a delivery: a scheduled one is `paused`, or `retrying` after a failure. */
export function shownState({ state, is_paused: isPaused }: Scheduled, hasFailed: boolean): string {
  if (isPaused) return "paused";
  return state === "scheduled" && hasFailed ? "retrying" : state;
}

/** The mark of a finished task that nobody has collected. */
export function Ready() {
  return (
    <span class="ready" title="Finished and not collected yet">
      ready
    </span>
  );
}

/** A state as a badge. */
export function Badge({ state, title }: { readonly state: string; readonly title?: string }) {
  return (
    <span class={`badge badge-${TONES[state] ?? "idle"}`} title={title}>
      {stateText(state)}
    </span>
  );
}

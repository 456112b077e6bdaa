/** What a thread does at a moment. `core` is a thread that could run and has no core, `disk` one that waits for it. */
export type ThreadState = "runs" | "core" | "disk" | "sleeps";

export const THREAD_STATES: readonly ThreadState[] = ["runs", "core", "disk", "sleeps"];

/** Something that the scheduler did, at a time in seconds. */
export type SchedulerEvent = {
  readonly at: number;
  readonly core: number;
  /** The thread in whose name it was done; 0 where the core was idle. */
  readonly by: number;
} & (
  | { readonly kind: "switch"; readonly next: number; readonly left: ThreadState }
  | { readonly kind: "wakeup"; readonly thread: number; readonly target: number }
);

const EVENT = /^.+-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+\.\d+): sched_(switch|wakeup): (.*)$/;
const SWITCH = / prev_state=(\S+) ==> .* next_pid=(\d+) /;
const WAKEUP = / pid=(\d+) .*target_cpu=(\d+)/;

/** Reads a trace of `sched_switch` and `sched_wakeup`, as Linux writes it. */
export function parseTrace(text: string): readonly SchedulerEvent[] {
  return text.split("\n").flatMap((line): SchedulerEvent[] => {
    const [, by = "", core = "", at = "", kind = "", rest = ""] = EVENT.exec(line) ?? [];
    const event = { at: Number(at), core: Number(core), by: Number(by) };
    if (kind === "switch") {
      const [, left = "", next = ""] = SWITCH.exec(rest) ?? [];
      return [{ ...event, kind, next: Number(next), left: stateOf(left) }];
    }
    if (kind !== "wakeup") return [];
    const [, thread = "", target = ""] = WAKEUP.exec(rest) ?? [];
    return [{ ...event, kind, thread: Number(thread), target: Number(target) }];
  });
}

function stateOf(letters: string): ThreadState {
  if (letters.startsWith("R")) return "core";
  return letters.startsWith("D") ? "disk" : "sleeps";
}

/** What threads and cores did, all as parts of the time. */
export interface Timeline {
  readonly seconds: number;
  /** By how many cores ran something at once, from none on. */
  readonly coresBusy: readonly number[];
  /** How long each thread ran, also those that nobody asked for. */
  readonly running: ReadonlyMap<number, number>;
  /** By the states of the threads that were asked for, in their order, at once. */
  readonly together: ReadonlyMap<string, number>;
}

/** The key of {@link Timeline.together}. */
export function togetherKey(states: readonly ThreadState[]): string {
  return states.join("/");
}

/**
 * Adds up what the threads did. A core that was idle tells nothing of the thread that it goes to (Linux 6.18): so whoever is
 * woken on one is taken to run at once, and whoever does something runs there.
 */
export function timelineOf(
  events: readonly SchedulerEvent[],
  { threads, cores }: { readonly threads: readonly number[]; readonly cores: number },
): Timeline {
  const times = new Times();
  const states = new Map<number, ThreadState>();
  const runners = new Array<number>(cores).fill(0);
  const run = (core: number, thread: number): void => {
    runners[core] = thread;
    if (thread !== 0) states.set(thread, "runs");
  };
  let last = events[0]?.at ?? 0;
  for (const event of events) {
    const together = togetherKey(threads.map((thread) => states.get(thread) ?? "sleeps"));
    if (event.at > last) times.add(event.at - last, { runners, together });
    last = event.at;
    if (event.by !== 0 && runners[event.core] !== event.by) run(event.core, event.by);
    if (event.kind === "switch") {
      if (event.by !== 0) states.set(event.by, event.left);
      run(event.core, event.next);
    } else if (states.get(event.thread) !== "runs") {
      states.set(event.thread, "core");
      if (runners[event.target] === 0) run(event.target, event.thread);
    }
  }
  return times.parts(cores);
}

class Times {
  #seconds = 0;
  readonly #coresBusy = new Map<number, number>();
  readonly #running = new Map<number, number>();
  readonly #together = new Map<string, number>();

  add(
    seconds: number,
    { runners, together }: { readonly runners: readonly number[]; readonly together: string },
  ): void {
    const busy = runners.filter((thread) => thread !== 0);
    this.#seconds += seconds;
    addTo(this.#coresBusy, busy.length, seconds);
    addTo(this.#together, together, seconds);
    for (const thread of busy) addTo(this.#running, thread, seconds);
  }

  parts(cores: number): Timeline {
    const ofAll = <Key>(times: ReadonlyMap<Key, number>): ReadonlyMap<Key, number> =>
      new Map([...times].map(([key, seconds]) => [key, seconds / this.#seconds]));
    const busy = ofAll(this.#coresBusy);
    return {
      seconds: this.#seconds,
      coresBusy: Array.from({ length: cores + 1 }, (_, count) => busy.get(count) ?? 0),
      running: ofAll(this.#running),
      together: ofAll(this.#together),
    };
  }
}

function addTo<Key>(sums: Map<Key, number>, key: Key, more: number): void {
  sums.set(key, (sums.get(key) ?? 0) + more);
}

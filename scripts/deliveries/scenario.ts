import type { DaemonPlace } from "../kit/daemon-file.ts";
import type { Beside } from "../kit/figures.ts";
import { number, optional, whole, wholes, type Values } from "../kit/flags.ts";
import { inTurn, type Measured } from "../kit/in-turn.ts";
import { runDeliveries, type DeliveryPlan, type DeliveryRun } from "./delivery-run.ts";

/** The common options of the scenarios: how long and how hard. Null is the scenario's own default. */
export const effortFlags = {
  seconds: optional(number("of each measurement (hanging 30, backlog 60, lateness 100)")),
  rounds: optional(whole("measurements of each leg, in turn (hanging 5, backlog 3, lateness 1)")),
  rate: optional(number("fresh deliveries a second (hanging 500, backlog 1000, lateness 500)")),
  retries: optional(whole("in the file before (backlog 50000, lateness 100000)")),
  hang: wholes("hosts of the 200 that hang, each number a leg of its own", 2),
  "warm-up": number("seconds of load before a measurement, not counted", 5),
  idle: number("seconds that the daemon's CPU is looked at before and after", 10),
};
export type Effort = Values<typeof effortFlags>;

/** A load that is measured in turn with others: each with a daemon and a file of its own. */
export interface Leg {
  /** For the table. */
  readonly name: string;
  readonly plan: DeliveryPlan;
}

/** Legs that are compared with the first of them. */
export interface Scenario {
  readonly title: string;
  readonly legs: readonly Leg[];
  readonly rounds: number;
  readonly budgets: readonly Budget[];
}

/** A bound that a release is held to, of one leg. */
export interface Budget {
  readonly text: string;
  readonly leg: number;
  readonly max: number;
  readonly value: (measured: Beside<DeliveryRun>) => number;
}

/** A leg and its runs, by round. */
export type LegResult = Measured<Leg, DeliveryRun>;

const HOSTS = hostAddresses(200, 77);
const FAILING_HOSTS = hostAddresses(20, 78);
const QUIET = { failing: [], hanging: [], ignored: [] };

/** The ratio of the p99 of fresh deliveries. */
export function p99Ratio({ run, first }: Beside<DeliveryRun>): number {
  return run.arrivals.fromCompletion.p99Ms / first.arrivals.fromCompletion.p99Ms;
}

/** The scenarios by name. */
export const SCENARIOS: Readonly<Record<string, (effort: Effort) => Scenario>> = {
  hanging: hangingScenario,
  backlog: backlogScenario,
  lateness: latenessScenario,
};

/** Measures the legs of a scenario in turn. */
export function runScenario(
  { legs, rounds }: Scenario,
  options: {
    readonly place: DaemonPlace;
    /** Called with every run as soon as it is done. */
    readonly onResult: (leg: Leg, run: DeliveryRun) => void;
  },
): Promise<readonly LegResult[]> {
  const { place, onResult } = options;
  const measure = (leg: Leg): Promise<DeliveryRun> => runDeliveries(leg.plan, place);
  return inTurn(legs, { rounds, uncounted: 0, onResult, measure });
}

function hangingScenario(effort: Effort): Scenario {
  const { hang } = effort;
  // The same hosts are left out of all legs, so that all measure the same ones.
  const ignored = HOSTS.slice(0, Math.max(...hang));
  const plan = { ...planOf(effort, { seconds: 30, rate: 500 }), idleSeconds: 0 };
  const leg = (name: string, hanging: readonly string[]): Leg => {
    return { name, plan: { ...plan, behaviour: { failing: [], hanging, ignored } } };
  };
  return {
    title: `${plan.perSecond} deliveries a second to ${HOSTS.length} hosts, measured at the ${HOSTS.length - ignored.length} that never hang`,
    rounds: effort.rounds ?? 5,
    legs: [
      leg("all answer", []),
      ...hang.map((count) => leg(`${count} take and never answer`, HOSTS.slice(0, count))),
    ],
    budgets: hang.map((count, i) => ({
      text: `p99 with ${count} hanging hosts to that without`,
      leg: i + 1,
      max: 1.2,
      value: p99Ratio,
    })),
  };
}

function backlogScenario(effort: Effort): Scenario {
  const plan = planOf(effort, { seconds: 60, rate: 1000 });
  const retries = effort.retries ?? 50_000;
  const behaviour = { ...QUIET, failing: FAILING_HOSTS };
  // The first of their retries; the next one is due 5 minutes after it, by default, when all else is over.
  const backlog = { retries, hosts: FAILING_HOSTS, retryNumbers: [1], due: "measured" as const };
  return {
    title: `${plan.perSecond} fresh deliveries a second, beside ${retries} to ${FAILING_HOSTS.length} hosts that fail`,
    rounds: effort.rounds ?? 3,
    legs: [
      { name: "no backlog", plan },
      {
        name: `${retries} retries, due evenly over ${plan.seconds} s, answered 500`,
        plan: { ...plan, behaviour, backlog },
      },
    ],
    budgets: [
      {
        text: "p99 of fresh deliveries beside the backlog, ms",
        leg: 1,
        max: 100,
        value: ({ run }) => run.arrivals.fromCompletion.p99Ms,
      },
      {
        text: "CPU when all wait again, % of a core",
        leg: 1,
        max: 2,
        value: ({ run }) => run.cpuPercent.after,
      },
    ],
  };
}

function latenessScenario(effort: Effort): Scenario {
  const plan = planOf(effort, { seconds: 100, rate: 500 });
  const retries = effort.retries ?? 100_000;
  const backlog = { retries, hosts: HOSTS, retryNumbers: [1, 2, 3] };
  const later = { ...backlog, due: "in an hour" } as const;
  const due = { ...backlog, due: "measured" } as const;
  const fresh = `${plan.perSecond} fresh/s`;
  return {
    title: `${retries} retries for ${HOSTS.length} hosts`,
    rounds: effort.rounds ?? 1,
    legs: [
      { name: `${fresh}, no retries`, plan },
      { name: `${fresh}, ${retries} retries due in an hour`, plan: { ...plan, backlog: later } },
      {
        name: `${retries} retries due evenly over ${plan.seconds} s, nothing else`,
        plan: { ...plan, perSecond: 0, backlog: due },
      },
    ],
    budgets: [
      {
        text: "p99 beside retries that are not due, to that without",
        leg: 1,
        max: 1.2,
        value: p99Ratio,
      },
      {
        text: "p99 from due to begun, ms",
        leg: 2,
        max: 1200,
        value: ({ run }) => run.lateness.p99Ms,
      },
    ],
  };
}

/** The plan of a scenario's first leg, with its own defaults. */
function planOf(
  effort: Effort,
  own: { readonly seconds: number; readonly rate: number },
): DeliveryPlan {
  return {
    perSecond: effort.rate ?? own.rate,
    hosts: HOSTS,
    warmUpSeconds: effort["warm-up"],
    seconds: effort.seconds ?? own.seconds,
    behaviour: QUIET,
    backlog: null,
    idleSeconds: effort.idle,
  };
}

/** So many addresses of 127.0.0.0/8, each a host of its own; another `block` (1–254) makes others. */
function hostAddresses(count: number, block: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => {
    return `127.${block}.${Math.floor(i / 250)}.${1 + (i % 250)}`;
  });
}

import type { Beside } from "../kit/figures.ts";
import type { DeliveryPlan, DeliveryRun } from "./delivery-run.ts";
import { hostAddresses } from "./hosts.ts";

/** The common options of the scenarios: how long and how hard. Null is the scenario's own default. */
export interface Effort {
  readonly seconds: number | null;
  readonly rounds: number | null;
  readonly perSecond: number | null;
  /** Retries in the file. */
  readonly retries: number | null;
  readonly warmUpSeconds: number;
  readonly idleSeconds: number;
  /** For each of these numbers of hanging hosts, a leg. */
  readonly hanging: readonly number[];
}

/** A load that is measured in turn with others: each with a daemon and a file of its own. */
export interface Leg {
  /** For the table. */
  readonly name: string;
  readonly plan: Omit<DeliveryPlan, "place">;
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

const HOSTS = hostAddresses(200, 77);
const FAILING_HOSTS = hostAddresses(20, 78);
const QUIET = { failing: [], hanging: [], ignored: [] };
const p99Ratio = ({ run, first }: Beside<DeliveryRun>): number =>
  run.arrivals.fromCompletion.p99Ms / first.arrivals.fromCompletion.p99Ms;

/** The scenarios by name. */
export const SCENARIOS: Readonly<Record<string, (effort: Effort) => Scenario>> = {
  hanging: hangingScenario,
  backlog: backlogScenario,
  lateness: latenessScenario,
};

function hangingScenario(effort: Effort): Scenario {
  const perSecond = effort.perSecond ?? 500;
  const seconds = effort.seconds ?? 30;
  const { warmUpSeconds } = effort;
  // The same hosts are left out of all legs, so that all measure the same ones.
  const ignored = HOSTS.slice(0, Math.max(...effort.hanging));
  const leg = (name: string, hanging: readonly string[]): Leg => ({
    name,
    plan: {
      perSecond,
      hosts: HOSTS,
      warmUpSeconds,
      seconds,
      backlog: null,
      idleSeconds: 0,
      behaviour: { failing: [], hanging, ignored },
    },
  });
  const others = effort.hanging.map((count) => ({ count, hanging: HOSTS.slice(0, count) }));
  return {
    title: `${perSecond} deliveries a second to ${HOSTS.length} hosts, measured at the ${HOSTS.length - ignored.length} that never hang`,
    rounds: effort.rounds ?? 5,
    legs: [
      leg("all answer", []),
      ...others.map(({ count, hanging }) => leg(`${count} take and never answer`, hanging)),
    ],
    budgets: others.map(({ count }, i) => ({
      text: `p99 with ${count} hanging hosts to that without`,
      leg: i + 1,
      max: 1.2,
      value: p99Ratio,
    })),
  };
}

function backlogScenario(effort: Effort): Scenario {
  const perSecond = effort.perSecond ?? 1000;
  const seconds = effort.seconds ?? 60;
  const retries = effort.retries ?? 50_000;
  const { warmUpSeconds, idleSeconds } = effort;
  const plan = { perSecond, hosts: HOSTS, warmUpSeconds, seconds, idleSeconds };
  const behaviour = { ...QUIET, failing: FAILING_HOSTS };
  // The first of their retries; the next one is due 5 minutes after it, by default, when all else is over.
  const backlog = { retries, hosts: FAILING_HOSTS, retryNumbers: [1], due: "measured" as const };
  return {
    title: `${perSecond} fresh deliveries a second, beside ${retries} to ${FAILING_HOSTS.length} hosts that fail`,
    rounds: effort.rounds ?? 3,
    legs: [
      { name: "no backlog", plan: { ...plan, behaviour: QUIET, backlog: null } },
      {
        name: `${retries} retries, due evenly over ${seconds} s, answered 500`,
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
  const perSecond = effort.perSecond ?? 500;
  const seconds = effort.seconds ?? 100;
  const retries = effort.retries ?? 100_000;
  const { warmUpSeconds, idleSeconds } = effort;
  const plan = { hosts: HOSTS, warmUpSeconds, seconds, idleSeconds, behaviour: QUIET };
  const backlog = { retries, hosts: HOSTS, retryNumbers: [1, 2, 3] };
  const later = { ...backlog, due: "in an hour" } as const;
  const due = { ...backlog, due: "measured" } as const;
  return {
    title: `${retries} retries for ${HOSTS.length} hosts`,
    rounds: effort.rounds ?? 1,
    legs: [
      { name: `${perSecond} fresh/s, no retries`, plan: { ...plan, perSecond, backlog: null } },
      {
        name: `${perSecond} fresh/s, ${retries} retries due in an hour`,
        plan: { ...plan, perSecond, backlog: later },
      },
      {
        name: `${retries} retries due evenly over ${seconds} s, nothing else`,
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

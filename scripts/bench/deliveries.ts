import {
  defineCommand,
  names,
  number,
  optional,
  whole,
  wholes,
  type Values,
} from "../kit/command.ts";
import {
  besideFirst,
  figureOf,
  figureTable,
  inTurn,
  verdict,
  type Beside,
  type Figure,
  type Measured,
} from "../kit/measure.ts";
import { runDeliveries, type DeliveryPlan, type DeliveryRun } from "./delivery-run.ts";

/** How long and how hard. Null is the scenario's own default. */
const effortFlags = {
  seconds: optional(number("of each measurement (hanging 30, backlog 60, lateness 100)")),
  rounds: optional(whole("measurements of each leg, in turn (hanging 5, backlog 3, lateness 1)")),
  rate: optional(number("fresh deliveries per second (hanging 500, backlog 1000, lateness 500)")),
  retries: optional(whole("in the file before (backlog 50000, lateness 100000)")),
  hang: wholes("hosts of the 200 that hang, each number a leg of its own", [2]),
  "warm-up": number("seconds of load before a measurement, not counted", 5),
  idle: number("seconds for which the daemon's CPU is measured before and after", 10),
};
type Effort = Values<typeof effortFlags>;

/** A load that is measured in turn with others, each with a daemon and a file of its own. */
interface Leg {
  readonly name: string;
  readonly plan: DeliveryPlan;
}

/** Legs that are compared with the first of them, and the bounds of a release. */
interface Scenario {
  readonly title: string;
  readonly legs: readonly Leg[];
  readonly rounds: number;
  readonly budgets: readonly {
    readonly text: string;
    readonly leg: number;
    readonly max: number;
    readonly value: (measured: Beside<DeliveryRun>) => number;
  }[];
}

const SCENARIOS: Readonly<Record<string, (effort: Effort) => Scenario>> = {
  hanging: hangingScenario,
  backlog: backlogScenario,
  lateness: latenessScenario,
};

export const deliveries = defineCommand({
  about:
    "How late webhooks arrive if receivers hang, if many deliveries have failed, and if many retries are due.",
  flags: { only: names("scenarios", Object.keys(SCENARIOS)), ...effortFlags },
  async run({ only, ...effort }, { place, note, print }) {
    for (const name of only) {
      const scenario = SCENARIOS[name]?.(effort);
      if (scenario === undefined) continue;
      const results = await inTurn(scenario.legs, {
        rounds: scenario.rounds,
        uncounted: 0,
        measure: ({ plan }) => runDeliveries(plan, place),
        onResult: (leg, { arrivals: { fromCompletion: fresh }, lateness }) =>
          note(
            `${leg.name}: ${fresh.count} fresh, p99 ${fresh.p99Ms.toFixed(1)} ms; ` +
              `${lateness.count} retries, p99 ${lateness.p99Ms.toFixed(0)} ms late`,
          ),
      });
      print(`${report(scenario, results)}\n`);
    }
    print("HTTP without TLS on loopback.");
  },
});

type DeliveryFigure = Figure<Beside<DeliveryRun>>;

const p99Ratio = ({ run, first }: Beside<DeliveryRun>): number =>
  run.arrivals.fromCompletion.p99Ms / first.arrivals.fromCompletion.p99Ms;

const FRESH: readonly DeliveryFigure[] = [
  { name: "arrived/s", value: ({ run }) => run.arrivedPerSecond },
  { name: "p50 ms", digits: 1, value: ({ run }) => run.arrivals.fromCompletion.p50Ms },
  { name: "p99 ms", digits: 1, value: ({ run }) => run.arrivals.fromCompletion.p99Ms },
  { name: "p99.9 ms", digits: 1, value: ({ run }) => run.arrivals.fromCompletion.p999Ms },
  { name: "slowest ms", value: ({ run }) => run.arrivals.fromCompletion.maxMs },
  { name: "p99 to first", digits: 2, value: p99Ratio },
  { name: "post → arrival p99 ms", digits: 1, value: ({ run }) => run.arrivals.fromPost.p99Ms },
  { name: "post → answer p99 ms", digits: 1, value: ({ run }) => run.posts.p99Ms },
];
const RETRIES: readonly DeliveryFigure[] = [
  { name: "retries", value: ({ run }) => run.lateness.count },
  { name: "due → begun p50 ms", value: ({ run }) => run.lateness.p50Ms },
  { name: "p99 ms", value: ({ run }) => run.lateness.p99Ms },
  { name: "slowest ms", value: ({ run }) => run.lateness.maxMs },
  { name: "due → arrival p99 ms", value: ({ run }) => run.arrivals.retries.p99Ms },
];
const MACHINE: readonly DeliveryFigure[] = [
  { name: "CPU % before", digits: 1, value: ({ run }) => run.cpuPercent.before },
  { name: "during", value: ({ run }) => run.cpuPercent.during },
  { name: "after", digits: 1, value: ({ run }) => run.cpuPercent.after },
  { name: "RSS MB", value: ({ run }) => run.rssBytes / 1e6 },
];

/** Tables of the fresh deliveries, of retries and of the daemon: medians, and medians of the ratios of each round. */
function report(
  { title, budgets }: Scenario,
  results: readonly Measured<Leg, DeliveryRun>[],
): string {
  const first = results[0]?.results;
  const table = (
    figures: readonly DeliveryFigure[],
    has: (run: DeliveryRun) => number,
  ): readonly string[] => {
    const rows = results
      .filter(({ results: runs }) => runs.some((run) => has(run) > 0))
      .map(({ leg, results: runs }) => ({ what: [leg.name], runs: besideFirst(runs, first) }));
    return rows.length === 0 ? [] : [figureTable(figures, rows)];
  };
  const lines = budgets.map(({ text, leg, max, value }) => {
    const measured = figureOf({ value }, besideFirst(results[leg]?.results ?? [], first));
    return `- ${text}: ${measured.toFixed(2)}, at most ${max}: ${verdict(measured <= max)}`;
  });
  return [
    `### ${title}`,
    ...table(FRESH, ({ arrivals }) => arrivals.fromCompletion.count),
    ...table(RETRIES, ({ lateness }) => lateness.count),
    ...table(MACHINE, ({ rssBytes }) => rssBytes),
    lines.join("\n"),
  ].join("\n\n");
}

const HOSTS = hostAddresses(200, 77);
const FAILING_HOSTS = hostAddresses(20, 78);

function hangingScenario(effort: Effort): Scenario {
  const { hang } = effort;
  // All legs measure the same hosts.
  const ignored = HOSTS.slice(0, Math.max(...hang));
  const plan = { ...planOf(effort, { seconds: 30, rate: 500 }), idleSeconds: 0 };
  const leg = (name: string, hanging: readonly string[]): Leg => {
    return { name, plan: { ...plan, behaviour: { hanging, ignored } } };
  };
  return {
    title: `${plan.perSecond} deliveries per second to ${HOSTS.length} hosts, measured at the ${HOSTS.length - ignored.length} that never hang`,
    rounds: effort.rounds ?? 5,
    legs: [
      leg("all respond", []),
      ...hang.map((count) => leg(`${count} never respond`, HOSTS.slice(0, count))),
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
  // Of the first retry; the next one is due 5 minutes later, after the measurement.
  const backlog = { retries, hosts: FAILING_HOSTS, retryNumbers: [1], due: "measured" as const };
  return {
    title: `${plan.perSecond} fresh deliveries per second, next to ${retries} to ${FAILING_HOSTS.length} hosts that fail`,
    rounds: effort.rounds ?? 3,
    legs: [
      { name: "no backlog", plan },
      {
        name: `${retries} retries, due evenly over ${plan.seconds} s, answered 500`,
        plan: { ...plan, behaviour: { failing: FAILING_HOSTS }, backlog },
      },
    ],
    budgets: [
      {
        text: "p99 of fresh deliveries next to the backlog, ms",
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
        text: "p99 next to retries that are not due, to that without",
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
    behaviour: {},
    backlog: null,
    idleSeconds: effort.idle,
  };
}

/** Addresses of 127.0.0.0/8, each a host of its own; `block` is from 1 to 254. */
function hostAddresses(count: number, block: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => {
    return `127.${block}.${Math.floor(i / 250)}.${1 + (i % 250)}`;
  });
}

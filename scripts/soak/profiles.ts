import { randomInt } from "node:crypto";

import {
  defineCommand,
  names,
  number,
  optional,
  text,
  toggle,
  whole,
  type Bench,
} from "../kit/command.ts";
import { EAGER, everyRunner, lightTasks, TASKS_MEAN } from "./client.ts";
import { CLUSTER_FAULTS } from "./cluster-faults.ts";
import { runFault } from "./cluster.ts";
import { runSoak, type SoakOptions, type Span } from "./crash.ts";
import { soakTable } from "./report.ts";

const FAULTS_SHOWN = 30;
const SEED_MAX = 2 ** 31;
const ACCOUNTS = 3;
const LANES = 4;
const SEED = optional(whole("the plan of tasks and faults (drawn)"));

export const runners = defineCommand({
  about: `All that can go wrong with runners, at random and for a long time: no task may be lost, run under two live leases, or
end without a cause, and the daemon may not grow.`,
  flags: {
    minutes: number("half of them with kills of the daemon, half without", 30),
    seed: SEED,
    rate: number("tasks per second", 40),
    "kill-after": text("A,B", "seconds from a start of the daemon to its kill", "20,60"),
  },
  async run({ minutes, rate, seed, "kill-after": killAfter }, bench) {
    const [min = 0, max = 0] = killAfter.split(",").map((part) => Number(part) * 1000);
    if (!(min > 0 && max >= min)) throw new Error("--kill-after must be two numbers of seconds");
    await soak(bench, seed, everyFault({ seconds: minutes * 60, rate, killAfter: { min, max } }));
  },
});

export const crash = defineCommand({
  about:
    "Kills postbackd with SIGKILL in the middle of its work: nothing that it acknowledged may be lost.",
  flags: { rounds: whole("kills", 20), seed: SEED },
  run: ({ rounds, seed }, bench) => soak(bench, seed, crashes(rounds)),
});

export const cluster = defineCommand({
  about: `What several daemons on one PostgreSQL database must survive without losing anything, under load: faults of a daemon,
the server or the network, one after the other, each with a cluster of its own.`,
  flags: {
    only: names("faults", Object.keys(CLUSTER_FAULTS) as (keyof typeof CLUSTER_FAULTS)[]),
    rounds: optional(whole("of each fault (its own)")),
    seconds: optional(number("of each fault that lasts (its own)")),
    "no-notify": toggle("daemons send and receive no notifications"),
  },
  async run({ only, rounds, seconds, "no-notify": isSilent }, bench) {
    for (const name of only) {
      const fault = CLUSTER_FAULTS[name];
      const { usual } = fault;
      const strength = { rounds: rounds ?? usual.rounds, seconds: seconds ?? usual.seconds };
      bench.print(`### ${name}: ${fault.about}\n`);
      await runFault(bench, fault, { ...strength, flags: isSilent ? ["--no-notify"] : [] });
    }
  },
});

/** The differences between soaks of one daemon. */
export type Profile = Omit<SoakOptions, "place" | "seed" | "stallMsMax" | "onNews">;

/** Tasks and faults of every kind; `rate` is the tasks per second, `killAfter` in milliseconds. */
export function everyFault(of: {
  readonly seconds: number;
  readonly rate: number;
  readonly killAfter: Span;
}): Profile {
  const pauseMs = (1000 * TASKS_MEAN * LANES * ACCOUNTS) / of.rate;
  return {
    accounts: ACCOUNTS,
    // A soak is about faults, not about a growing queue.
    habit: { lanes: LANES, pauseMs, plan: everyRunner, missingMax: 9000 },
    loadConnections: 0,
    workerProcesses: 3,
    ...{ rounds: Infinity, killSeconds: of.seconds / 2, calmSeconds: of.seconds / 2 },
    killAfter: { unit: "ms", ...of.killAfter },
    killsStarts: false,
    workerKillEvery: { min: 4000, max: 15_000 },
    serviceDeathEvery: { min: 10_000, max: 40_000 },
  };
}

/** Kills under as much load as the daemon can take. */
export function crashes(rounds: number): Profile {
  return {
    accounts: 1,
    habit: { ...EAGER, plan: lightTasks },
    loadConnections: 32,
    workerProcesses: 0,
    ...{ rounds, killSeconds: Infinity, calmSeconds: 0 },
    killAfter: { unit: "tasks", min: 50, max: 4000 },
    killsStarts: true,
    ...{ workerKillEvery: null, serviceDeathEvery: null },
  };
}

async function soak(
  { place, note, print }: Bench,
  wantedSeed: number | null,
  profile: Profile,
): Promise<void> {
  const seed = wantedSeed ?? randomInt(1, SEED_MAX);
  note(`--seed ${seed}`);
  const report = await runSoak({ ...profile, place, seed, stallMsMax: 180_000, onNews: note });
  print(`${soakTable(report)}\n\n--seed ${seed}`);
  const { faults } = report;
  if (faults.length > 0)
    throw new Error(`${faults.length} violations:\n${faults.slice(0, FAULTS_SHOWN).join("\n")}`);
}

import { randomInt } from "node:crypto";

import { defineCommand, type Bench } from "../kit/command.ts";
import { number, optional, span, whole } from "../kit/flags.ts";
import { EAGER } from "./client.ts";
import { soakTable } from "./report.ts";
import { runSoak, type SoakOptions, type Span } from "./soak-run.ts";
import { everyRunner, lightTasks, TASKS_MEAN } from "./task-plan.ts";

const FAULTS_SHOWN = 30;
const SEED_MAX = 2 ** 31;
const ACCOUNTS = 3;
const LANES = 4;
const SEED = optional(whole("the plan of tasks and faults (drawn)"));

export const runners = defineCommand({
  about: `Everything that can go wrong with runners, at random and for a long time: no task may be lost, run under two live
leases, or end without a cause, and the daemon may not grow.`,
  flags: {
    minutes: number("half of them with kills of the daemon, half without", 30),
    seed: SEED,
    rate: number("tasks a second", 40),
    "kill-after": span("seconds from a start of the daemon to its kill, drawn between", "20,60"),
  },
  async run(values, bench) {
    const { minutes, rate, "kill-after": killAfter, seed } = values;
    await soak(bench, seed, everyFault({ seconds: minutes * 60, rate, killAfter }));
  },
});

export const crash = defineCommand({
  about:
    "Kills postbackd with SIGKILL in the middle of its work and proves that nothing it acknowledged was lost.",
  flags: { rounds: whole("kills", 20), seed: SEED },
  async run({ rounds, seed }, bench) {
    await soak(bench, seed, crashes(rounds));
  },
});

/** What differs between soaks. */
export type Profile = Omit<SoakOptions, "place" | "seed" | "stallMsMax" | "onNews">;

/** Tasks and faults of every kind; `rate` is the tasks a second, `killAfter` in milliseconds. */
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

/** Kills under the load that the daemon can take. */
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
  const common = { place, seed, stallMsMax: 180_000, onNews: note };
  const report = await runSoak({ ...profile, ...common });
  print(`${soakTable(report)}\n\n--seed ${seed}`);
  const { faults } = report;
  if (faults.length > 0)
    throw new Error(`${faults.length} violations:\n${faults.slice(0, FAULTS_SHOWN).join("\n")}`);
}

import { copyFileSync, mkdtempSync, statSync } from "node:fs";
import { join } from "node:path";

import { openPhase, type Phase, type Slice } from "../bench/phases.ts";
import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, type DaemonFile } from "../kit/daemon-file.ts";
import {
  besideFirst,
  figureOf,
  figureTable,
  megabytes,
  percent,
  type Beside,
  type Figure,
} from "../kit/figures.ts";
import { number, whole } from "../kit/flags.ts";
import { inTurn } from "../kit/in-turn.ts";
import { verdict } from "../kit/text-table.ts";
import { fillFile, ROOM } from "./filling.ts";

const LETTERS = ["b", "c", "d"];
const SHARE_MIN = 0.9;

type Run = Beside<Slice>;

const TO_EMPTY: Figure<Run> = {
  name: "to empty",
  unit: " %",
  value: ({ run, first }) => (100 * run.tasksPerSecond) / first.tasksPerSecond,
};
const FIGURES: readonly Figure<Run>[] = [
  { name: "tasks/s", value: ({ run }) => run.tasksPerSecond },
  TO_EMPTY,
  { name: "p50 ms", digits: 1, value: ({ run }) => run.p50Ms },
  { name: "p99 ms", digits: 1, value: ({ run }) => run.p99Ms },
  { name: "server CPU µs/task", value: ({ run }) => run.cpuMicrosPerTask },
  { name: "server RSS MB", value: ({ run }) => run.rssBytes / 1e6 },
];

export const command = defineCommand({
  about: `Whether the rates of (b), (c) and (d) stay what they are when the file is full: each measured beside the same with
an empty one, by turns.`,
  flags: {
    tasks: whole("in the full file, half of them of the account that posts", 1_000_000),
    retries: whole("of these that wait for their first retry", 100_000),
    accounts: whole("they belong to", 1000),
    hosts: whole("they are sent to", 10_000),
    rounds: whole("measurements of each", 7),
    seconds: number("of each measurement", 1),
    deliveries: whole("tasks of each measurement of (d)", 2500),
  },
  async run({ rounds, seconds, deliveries, ...filling }, { place, note, print }) {
    const full = await createDaemonFile(place, { more: ROOM });
    await fillFile(full, filling);
    await using stack = new AsyncDisposableStack();
    const effort = { seconds, connections: 64, tasks: deliveries };
    const setup = { place, effort, stack };
    const legs: Phase[] = [];
    for (const letter of LETTERS) {
      const newFile = async (): Promise<DaemonFile> => copyOf(full);
      legs.push(await openPhase(letter, setup), await openPhase(letter, { ...setup, newFile }));
    }
    const measured = await inTurn(legs, {
      rounds,
      uncounted: 2,
      measure: ({ measure }) => measure(),
      onResult: ({ letter }, { tasksPerSecond }) => {
        note(`(${letter}) ${Math.round(tasksPerSecond)} tasks/s`);
      },
    });
    print(report(measured.map(({ leg, results }) => ({ ...leg, slices: results }))));
    print(`\nThe full file has ${megabytes(statSync(full.database).size)} MB; ${rounds} rounds.`);
  },
});

/** The same account with a database of its own; no daemon may serve it meanwhile. */
function copyOf(file: DaemonFile): DaemonFile {
  const folder = mkdtempSync(`${file.folder}-`);
  const database = join(folder, "postbackd.db");
  copyFileSync(file.database, database);
  copyFileSync(join(file.folder, "postbackd.toml"), join(folder, "postbackd.toml"));
  return { ...file, folder, database };
}

interface MeasuredPhase {
  readonly letter: string;
  readonly title: string;
  readonly slices: readonly Slice[];
}

/** Each phase with an empty file, and right after it with the full one. */
function report(phases: readonly MeasuredPhase[]): string {
  const rows = LETTERS.flatMap((letter) => {
    const [empty, full] = phases.filter((phase) => phase.letter === letter);
    if (empty === undefined || full === undefined) return [];
    return [
      { what: [`(${letter}) ${empty.title}`], runs: besideFirst(empty.slices, empty.slices) },
      { what: [`(${letter}), the full file`], runs: besideFirst(full.slices, empty.slices) },
    ];
  });
  const shares = rows.map(({ runs }) => figureOf(TO_EMPTY, runs) / 100);
  const kept = verdict(shares.every((share) => share >= SHARE_MIN));
  return `${figureTable(FIGURES, rows)}\n\nEach rate at least ${percent(SHARE_MIN)} of that with an empty file: ${kept}.`;
}

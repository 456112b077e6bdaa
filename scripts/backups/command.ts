import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { defineCommand, type Bench } from "../kit/command.ts";
import { createDaemonFile, startDaemon, type DaemonFile } from "../kit/daemon-file.ts";
import { runProgram, type DaemonProcess } from "../kit/daemon-process.ts";
import { epochMs, median, type Spread } from "../kit/durations.ts";
import { figureOf, figureTable, SPREAD_FIGURES, type Figure } from "../kit/figures.ts";
import { fillDatabase } from "../kit/fill-tasks.ts";
import { number, whole } from "../kit/flags.ts";
import { runOpenLoad } from "../kit/open-load.ts";
import { requestText } from "../kit/request.ts";

const RATIO_MAX = 1.5;
const CONNECTIONS = 64;
const SOON_MS = 300;
const TASK = { type: "echo", tag: "fresh", input: { source: "s3://uploads/2026/clip.mov" } };

/** A stretch of time in which tasks are posted. */
interface Stretch {
  readonly answers: Spread;
  /** The median of the backups' times; NaN without one. */
  readonly backupMs: number;
  readonly walMb: number;
}

const FIGURES: readonly Figure<Stretch>[] = [
  { name: "posts", value: ({ answers }) => answers.count },
  ...SPREAD_FIGURES.map((figure) => ({
    ...figure,
    value: ({ answers }: Stretch) => figure.value(answers),
  })),
  { name: "backup ms", value: ({ backupMs }) => backupMs },
  { name: "WAL MB", value: ({ walMb }) => walMb },
];

// All of them wait, and a file of a gigabyte has more than an account may have by default.
const ROOM = "\n[limits.account]\nopen_tasks = 0\n";

export const command = defineCommand({
  about: `Fills a database with tasks, then measures how long task_post takes while nothing else happens, and while
'postbackd backup create' copies the file, again and again: by turns, at the same steady rate.`,
  flags: {
    tasks: whole("tasks in the file before", 1_000_000),
    rounds: whole("stretches of each", 3),
    rate: whole("posts a second", 100),
    size: whole("tasks in a post", 10),
    seconds: number("how long a stretch is", 15),
  },
  async run({ tasks, rounds, ...load }, { place, print, note }) {
    const file = await createDaemonFile(place, { more: ROOM });
    await using daemon = await startDaemon(file);
    await fillDatabase({ file, daemon, tasks });
    const bench = { file, daemon, load, note };
    await stretch(bench, false);
    const without: Stretch[] = [];
    const during: Stretch[] = [];
    for (let round = 0; round < rounds; round++) {
      without.push(await stretch(bench, false));
      during.push(await stretch(bench, true));
    }
    await daemon.stop();
    print(report({ file, without, during }));
  },
});

interface Parts extends Pick<Bench, "note"> {
  readonly file: DaemonFile;
  readonly daemon: DaemonProcess;
  readonly load: { readonly rate: number; readonly size: number; readonly seconds: number };
}

/** Posts for as long as is asked, while one backup is made after the other where there are to be any. */
async function stretch(parts: Parts, hasBackup: boolean): Promise<Stretch> {
  const { file, daemon, load, note } = parts;
  const body = JSON.stringify(Array.from({ length: load.size }, () => TASK));
  const post = requestText("POST /v1/tasks/task_post", { secret: file.account.key, body });
  const from = epochMs() + SOON_MS;
  const to = from + load.seconds * 1000;
  const posting = runOpenLoad({
    port: daemon.port,
    connections: CONNECTIONS,
    perSecond: load.rate,
    from,
    to,
    requestAt: () => post,
  });
  await sleep(SOON_MS);
  const tookMs: number[] = [];
  while (hasBackup && epochMs() < to) tookMs.push(await makeBackup(file));
  const walMb = walBytes(file) / 1e6;
  const { answers } = await posting;
  note(`${tookMs.length} backups: ${JSON.stringify(answers)}`);
  return { answers, backupMs: median(tookMs), walMb };
}

async function makeBackup(file: DaemonFile): Promise<number> {
  const copy = join(file.folder, "copy.db");
  const begunAt = performance.now();
  // Removed here, the copy before would hold up this process, which is the clock: 140 ms for 890 MB in memory.
  const order = ["backup", "create", copy, "--replace", "--db", file.database];
  const { error } = await runProgram(order, file);
  if (error !== null) throw error;
  return performance.now() - begunAt;
}

function walBytes({ database }: DaemonFile): number {
  return existsSync(`${database}-wal`) ? statSync(`${database}-wal`).size : 0;
}

function report({
  file,
  without,
  during,
}: {
  readonly file: DaemonFile;
  readonly without: readonly Stretch[];
  readonly during: readonly Stretch[];
}): string {
  const rows = [
    { what: ["without"], runs: without },
    { what: ["during a backup"], runs: during },
  ];
  const p99 = { value: ({ answers }: Stretch) => answers.p99Ms };
  const ratio = figureOf(p99, during) / figureOf(p99, without);
  const isKept = ratio <= RATIO_MAX ? "kept" : "MISSED";
  const megabytes = (statSync(file.database).size / 1e6).toFixed(0);
  return `${figureTable(FIGURES, rows, { what: ["task_post"] })}

The file has ${megabytes} MB. p99 during a backup is ${ratio.toFixed(2)} of p99 without (at most ${RATIO_MAX}: ${isKept}).`;
}

import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { defineCommand, number, whole } from "../kit/command.ts";
import { createDaemonFile, runProgram, startDaemon, type DaemonFile } from "../kit/daemon.ts";
import { runOpenLoad } from "../kit/load.ts";
import {
  epochMs,
  figureOf,
  figureTable,
  median,
  megabytes,
  SPREAD_FIGURES,
  verdict,
  type Figure,
  type Spread,
} from "../kit/measure.ts";
import { fillTasks, NO_TASK_LIMIT } from "./fill.ts";
import { ANSWERS, freshPost, STEADY_POSTS } from "./reads.ts";

const RATIO_MAX = 1.5;
const SOON_MS = 300;

/** A time in which tasks are posted, next to backups or not. */
interface Stretch extends Spread {
  /** The median time of a backup; NaN without backups. */
  readonly backupMs: number;
  readonly walMb: number;
}

const FIGURES: readonly Figure<Stretch>[] = [
  ...[ANSWERS, ...SPREAD_FIGURES],
  { name: "backup ms", value: ({ backupMs }) => backupMs },
  { name: "WAL MB", value: ({ walMb }) => walMb },
];

export const backups = defineCommand({
  about: `Fills a database with tasks, then measures how long task_post takes while nothing else happens, and while
'postbackd backup create' copies the file, again and again: by turns, at the same steady rate.`,
  flags: {
    tasks: whole("tasks in the file before", 1_000_000),
    rounds: whole("stretches of each", 3),
    rate: whole("posts per second", STEADY_POSTS.perSecond),
    size: whole("tasks in a post", STEADY_POSTS.tasks),
    seconds: number("length of a stretch", 15),
  },
  async run({ tasks, rounds, rate, size, seconds }, { place, print, note }) {
    const file = await createDaemonFile(place, { more: NO_TASK_LIMIT });
    await using daemon = await startDaemon(file);
    await fillTasks(file, daemon, tasks);
    const post = freshPost(file.account.key, size);
    const { port } = daemon;
    const stretch = async (hasBackup: boolean): Promise<Stretch> => {
      const from = epochMs() + SOON_MS;
      const to = from + seconds * 1000;
      const { connections } = STEADY_POSTS;
      const load = { port, connections, perSecond: rate, from, to, requestAt: () => post };
      const posting = runOpenLoad(load);
      await sleep(SOON_MS);
      const tookMs: number[] = [];
      while (hasBackup && epochMs() < to) tookMs.push(await makeBackup(file));
      const wal = statSync(`${file.database}-wal`, { throwIfNoEntry: false });
      const spread = await posting;
      note(`${tookMs.length} backups: ${JSON.stringify(spread)}`);
      return { ...spread, backupMs: median(tookMs), walMb: (wal?.size ?? 0) / 1e6 };
    };
    await stretch(false);
    const [without, during]: [Stretch[], Stretch[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      without.push(await stretch(false));
      during.push(await stretch(true));
    }
    await daemon.stop();
    const rows = [
      { what: ["without"], runs: without },
      { what: ["during a backup"], runs: during },
    ];
    print(figureTable(FIGURES, rows, { what: ["task_post"] }));
    const p99 = { value: ({ p99Ms }: Stretch) => p99Ms };
    const ratio = figureOf(p99, during) / figureOf(p99, without);
    print(
      `\nThe file has ${megabytes(statSync(file.database).size)} MB. p99 during a backup is ${ratio.toFixed(2)} of p99 without:`,
    );
    print(`- at most ${RATIO_MAX}: ${verdict(ratio <= RATIO_MAX)}`);
  },
});

async function makeBackup(file: DaemonFile): Promise<number> {
  const copy = join(file.folder, "copy.db");
  const begunAt = performance.now();
  // To remove the copy before would block this process, which is the clock: 140 ms for 890 MB in memory.
  const order = ["backup", "create", copy, "--replace", "--db", file.database];
  const { error } = await runProgram(order, file);
  if (error !== null) throw error;
  return performance.now() - begunAt;
}

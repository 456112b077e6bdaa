import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import Database from "better-sqlite3";

import { ApiClient } from "../kit/api-client.ts";
import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon, type DaemonFile } from "../kit/daemon-file.ts";
import { runProgram } from "../kit/daemon-process.ts";
import { whole } from "../kit/flags.ts";
import { until } from "../kit/until.ts";
import { openReceiver, webhookUrls, type WebhookUrls } from "../kit/webhook-receiver.ts";

const TASKS_PER_POST = 10;
const POSTERS = 4;
// 400 tasks a second. Each copy has webhooks that are under way.
const POST_EVERY_MS = 100;
const ANSWER_MS = 50;
const SILENT_MS = 10_000;
const SENT_MS_MAX = 60_000;

export const command = defineCommand({
  about: `Makes backups of a daemon that is under load, restores each elsewhere, and looks there for every task that had been
answered before the backup began. The last one is started twice: with its webhooks held it must send none, resumed it must
send those that waited.`,
  flags: { rounds: whole("backups", 20) },
  async run({ rounds }, { place, print, note }) {
    let received = 0;
    await using receiver = await openReceiver(() => void received++, { afterMs: ANSWER_MS });
    const file = await createDaemonFile(place);
    const load = { answered: [] as string[], isOver: false };
    const daemon = await startDaemon(file);
    const client = new ApiClient({ url: daemon.url, key: file.account.key });
    const posting = Array.from({ length: POSTERS }, () =>
      post(client, webhookUrls(receiver), load),
    );
    for (let round = 1; round <= rounds; round++) {
      const known = load.answered.length;
      const stuck = (): string => "no task_post is answered";
      await until(() => load.answered.length > known, { msMax: SENT_MS_MAX, fault: stuck });
      const before = load.answered.length;
      const copy = join(file.folder, `${round}.db`);
      await runStep(["backup", "create", copy, "--db", file.database], file);
      await restore(copy, "pause", file);
      const missing = missingIn(restoredOf(copy), load.answered.slice(0, before));
      if (missing > 0) throw new Error(`round ${round}: ${missing} of ${before} tasks are missing`);
      note(`round ${round}: all of ${before} tasks are there`);
    }
    load.isOver = true;
    await Promise.all(posting);
    await daemon.kill();

    const last = join(file.folder, `${rounds}.db`);
    const waiting = waitingIn(restoredOf(last));
    if (waiting === 0) throw new Error("no webhook waits in the last copy");
    received = 0;
    await startFor(SILENT_MS, { ...file, database: restoredOf(last) });
    if (received > 0) throw new Error(`${received} webhooks were sent although they were held`);
    await restore(last, "resume", file);
    await using resumed = await startDaemon({ ...file, database: restoredOf(last) });
    const fault = (): string => `${received} of ${waiting} webhooks came`;
    await until(() => received >= waiting, { msMax: SENT_MS_MAX, everyMs: 100, fault });
    await resumed.stop();
    print(
      `${rounds} backups under load (${load.answered.length} tasks), restored elsewhere: every task that was answered before is ` +
        `there. Of ${waiting} webhooks that waited in the last one none was sent while they were held, all when resumed.`,
    );
  },
});

interface Load {
  readonly answered: string[];
  isOver: boolean;
}

async function post(client: ApiClient, urls: WebhookUrls, load: Load): Promise<void> {
  const task = { type: "echo", input: { a: 1 }, postback_url: urls.postbackUrl };
  const body = Array.from({ length: TASKS_PER_POST }, () => task);
  while (!load.isOver) {
    const { tasks } = await client.post(body);
    load.answered.push(...tasks.map(({ id }) => id));
    await sleep(POST_EVERY_MS);
  }
}

function restoredOf(copy: string): string {
  return `${copy}.restored`;
}

async function restore(
  copy: string,
  deliveries: "pause" | "resume",
  file: DaemonFile,
): Promise<void> {
  const place = ["--db", restoredOf(copy), "--deliveries", deliveries];
  await runStep(["backup", "restore", copy, ...place], file);
}

async function runStep(words: readonly string[], file: DaemonFile): Promise<void> {
  const { error } = await runProgram(words, file);
  if (error !== null) throw error;
}

async function startFor(ms: number, file: DaemonFile): Promise<void> {
  await using daemon = await startDaemon(file);
  await sleep(ms);
  await daemon.stop();
}

function missingIn(database: string, ids: readonly string[]): number {
  const found = new Set(select<string>(database, "SELECT id FROM tasks"));
  return ids.filter((id) => !found.has(id)).length;
}

function waitingIn(database: string): number {
  return select<number>(database, "SELECT count(*) FROM deliveries WHERE state = 'open'")[0] ?? 0;
}

function select<Value>(database: string, sql: string): readonly Value[] {
  const connection = new Database(database, { readonly: true });
  try {
    return connection.prepare<[], Value>(sql).pluck().all();
  } finally {
    connection.close();
  }
}

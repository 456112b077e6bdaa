import assert from "node:assert/strict";
import { test } from "node:test";

import { openDatabase } from "../../src/store/sqlite/machine/connection.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { startReceiver } from "../helpers/receiver.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const DAY = 86_400_000;
const TOML = "retention_days = 1\n";
const TABLES = ["tasks", "task_inputs", "task_results", "deliveries", "attempts"];

/** The rows of each table and the pages of the file. */
function look(file: string): { rows: readonly number[]; pages: number } {
  const database = openDatabase(file, { readonly: true });
  const count = (table: string) =>
    Number(database.prepare(`SELECT count(*) FROM ${table}`).pluck().get());
  const rows = TABLES.map(count);
  const pages = Number(database.pragma("page_count", { simple: true }));
  database.close();
  return { rows, pages };
}

/** Posts 1,200 tasks with inputs of 4 kB, some of them refused, delayed and cancelled. */
async function postGeneration(daemon: TestDaemon, receiverUrl: string): Promise<readonly string[]> {
  const input = "x".repeat(4000);
  const ids: string[] = [];
  for (let i = 0; i < 12; i++) {
    const tasks = Array.from({ length: 96 }, () => ({ input }));
    const rest = [
      { input, postback_url: receiverUrl, pingback_url: receiverUrl },
      { input, typo: 1 },
      { input, start_at: farStart(NOW), postback_url: receiverUrl },
      { input, tag: "last" },
    ];
    const posted = await daemon.post([...tasks, ...rest]);
    ids.push(...posted.tasks.map(({ id }) => id));
    const delayed = posted.tasks[98]?.id ?? "";
    await daemon.call(`/v1/tasks/task_cancel/${delayed}`, { method: "POST" });
  }
  return ids;
}

test("expired tasks leave no rows, and the file does not grow while others are posted", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock, toml: TOML });
  const generations: (readonly string[])[] = [];
  const pages: number[] = [];
  for (let i = 0; i < 3; i++) {
    // The sweep of the last generation goes on while this generation is posted.
    clock.jump(DAY + 60_000);
    generations.push(await postGeneration(daemon, receiver.url("/")));
    await daemon.daemon.idle();
    const seen = look(daemon.file);
    pages.push(seen.pages);
    // 1,188 of 1,200 tasks end with a result; 12 are cancelled.
    assert.deepEqual(seen.rows, [1200, 1200, 1188, 36, 24], `generation ${i}`);
  }
  const [, second = 0, ...later] = pages;
  for (const each of later) assert.ok(each <= second * 1.1, `the file grows: ${pages.join(", ")}`);

  for (const id of [0, 96, 97, 98, 99].map((i) => generations[1]?.[i])) {
    const gone = await daemon.call(`/v1/tasks/task_get/${id}`);
    assert.deepEqual([gone.status, /"status_code":40403/.test(await gone.text())], [410, true]);
  }
  clock.jump(DAY + 120_000);
  await daemon.daemon.idle();
  clock.advance(60_000);
  await daemon.daemon.idle();
  const { rows, pages: pagesLeft } = look(daemon.file);
  assert.deepEqual(rows, [0, 0, 0, 0, 0]);
  // The remaining pages are for the next tasks.
  assert.ok(pagesLeft <= 1100, `${pagesLeft} pages are left of ${second}`);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

test("an ended task is kept until its expires_at, and at most a minute longer", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: TOML });
  const start = { start_at: farStart(NOW) };
  const { tasks } = await daemon.post([{ input: 1 }, { typo: 1 }, start, start]);
  const [done = "", refused = "", cancelled = "", waiting = ""] = tasks.map(({ id }) => id);
  await daemon.daemon.idle();
  clock.advance(30_000);
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const isKept = async (id: string) =>
    (await daemon.call(`/v1/tasks/task_get/${id}?collect=false`)).status === 200;
  const kept = async () => Promise.all([done, refused, cancelled, waiting].map((id) => isKept(id)));

  clock.jump(DAY - 30_001);
  await daemon.daemon.idle();
  assert.deepEqual(await kept(), [true, true, true, true]);
  // 09:00:00.000: a minute's tick, and the first two expire at this very moment.
  clock.advance(1);
  await daemon.daemon.idle();
  assert.deepEqual(await kept(), [false, false, true, true]);
  clock.advance(60_000);
  await daemon.daemon.idle();
  assert.deepEqual(await kept(), [false, false, false, true]);
});

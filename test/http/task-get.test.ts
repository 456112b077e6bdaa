import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { ask, bearer, taskGet } from "./answer.ts";
import { NOW, startAt9 } from "./at-nine.ts";

const DAY = 86_400_000;

/** The id of no task, of a time. */
function idOf(timeMs: number): string {
  const time = timeMs.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7abc-8def-0123456789ab`;
}

test("an unknown id from before the retention is 40403, a later one 40401", async (t) => {
  const { daemon } = await startAt9(t);
  const cases = [
    [410, 40403, 0],
    [410, 40403, NOW - 30 * DAY - 1],
    [404, 40401, NOW - 30 * DAY],
    [404, 40401, NOW],
    [404, 40401, NOW + 30 * DAY],
    [404, 40401, 2 ** 48 - 1],
  ] as const;
  for (const [status, code, timeMs] of cases) {
    const target = taskGet(idOf(timeMs));
    const got = await ask(daemon.url, { target, headers: [bearer(daemon)] });
    assert.deepEqual([got.response.status, got.code], [status, code], String(timeMs));
  }
});

test("only GET with collect collects a task: neither HEAD nor collect=false does", async (t) => {
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([{}]);
  await daemon.daemon.idle();
  const id = tasks[0]?.id ?? "";
  const headers = [bearer(daemon)];
  for (const method of ["HEAD", "GET"]) {
    await ask(daemon.url, { method, target: taskGet(id, "?collect=false"), headers });
  }
  await ask(daemon.url, { method: "HEAD", target: taskGet(id, "?collect=true"), headers });
  assert.equal((await daemon.ready()).tasks_count, 1);
  await ask(daemon.url, { target: taskGet(id, "?collect=true"), headers });
  assert.equal((await daemon.ready()).tasks_count, 0);
});

clusterTest("concurrent requests that collect one task get the same response", async (t) => {
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([{ input: [1.5] }]);
  await daemon.daemon.idle();
  const target = taskGet(tasks[0]?.id ?? "");
  const answers = await Promise.all(Array.from({ length: 30 }, () => daemon.call(target)));
  const bodies = await Promise.all(answers.map((answer) => answer.text()));

  assert.equal(new Set(bodies).size, 1);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { openRaw } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, taskGet } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const DAY = 86_400_000;

/** An id nobody has, of a time. */
function idOf(timeMs: number): string {
  const time = timeMs.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7abc-8def-0123456789ab`;
}

test("a malformed id is answered like an unknown one, character for character", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const { tasks } = await daemon.post([{}]);
  const id = tasks[0]?.id ?? "";
  const unknown = await ask(daemon.url, { target: taskGet(idOf(NOW)), headers: [bearer(daemon)] });
  assert.equal(unknown.code, 40401);
  const malformed = [
    [
      id.toUpperCase(),
      id.replaceAll("-", ""),
      `{${id}}`,
      `${id}x`,
      `x${id}`,
      `${id}%20`,
      `%20${id}`,
    ],
    [
      `urn:uuid:${id}`,
      id.slice(1),
      id.slice(0, -1),
      `${id}%00`,
      `${id}%0a`,
      `${id}%2f`,
      `${id}%5c`,
    ],
    [
      "x",
      "0",
      "-1",
      "null",
      "undefined",
      "NaN",
      "%27",
      "'%20OR%20'1'='1",
      "*",
      "%25",
      "..%2f..%2f",
    ],
    ["__proto__", "constructor", "toString", "%ef%bc%90", "%f0%9f%98%80", "%e2%80%ae", "%ef%bb%bf"],
    ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    [idOf(NOW).replace("-7", "-4"), idOf(NOW).replace("-8", "-c"), idOf(0).replace("-7", "-4")],
    ["x".repeat(8000), "%41".repeat(2000)],
  ].flat();
  const connection = await openRaw(t, daemon.url);
  for (const text of malformed) {
    const target = taskGet(text);
    const got = await askOn(connection, { target, headers: [bearer(daemon)] });
    assert.equal(got.response.body.toString(), unknown.response.body.toString(), text);
    assert.equal(got.response.status, 404);
  }
});

test("an id may be spelled with percent escapes and a slash after it", async (t) => {
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([{}]);
  const id = tasks[0]?.id ?? "";
  const escaped = [...id].map((char) => `%${char.charCodeAt(0).toString(16)}`).join("");
  for (const target of [taskGet(escaped), taskGet(`${id}/`), taskGet(`./${id}`)]) {
    assert.equal(
      (await ask(daemon.url, { target, headers: [bearer(daemon)] })).code,
      20000,
      target,
    );
  }
});

clusterTest("another account's task is answered like an unknown one", async (t) => {
  const daemon = await startTestDaemon(t);
  const other = await createTestAccount(daemon.file, "other");
  const { tasks } = await daemon.post([{ input: "SECRET" }]);
  await daemon.daemon.idle();
  const id = tasks[0]?.id ?? "";
  const headers = [`Authorization: Bearer ${other.key}`];
  const foreign = await ask(daemon.url, { target: taskGet(id), headers });
  const unknown = await ask(daemon.url, { target: taskGet(idOf(Date.now())), headers });

  assert.equal(foreign.code, 40401);
  assert.deepEqual(foreign.body, unknown.body);
  assert.equal((await daemon.ready()).tasks_count, 1);
});

test("an unknown id from before the retention period is 40403, and one from within it 40401", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
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

test("collect takes true and false alone, and a query that is wrong collects nothing", async (t) => {
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([{}]);
  await daemon.daemon.idle();
  const id = tasks[0]?.id ?? "";
  const headers = [bearer(daemon)];
  const wrong = [
    ["?collect=", "?collect", "?collect=0", "?collect=no", "?collect=False", "?collect=true%20"],
    ["?collect=true&collect=true", "?collect=false&collect=true", "?Collect=false", "?wait=1"],
    ["?collect=false&nonsense=1", "?__proto__=1", "?collect%00=false", "?collect=%00"],
  ].flat();
  for (const query of wrong) {
    const got = await ask(daemon.url, { target: taskGet(id, query), headers });
    assert.equal(got.code, 40000, query);
  }
  for (const method of ["HEAD", "GET"]) {
    await ask(daemon.url, { method, target: taskGet(id, "?collect=false"), headers });
  }
  await ask(daemon.url, { method: "HEAD", target: taskGet(id, "?collect=true"), headers });
  assert.equal((await daemon.ready()).tasks_count, 1);
  await ask(daemon.url, { target: taskGet(id, "?collect=true"), headers });
  assert.equal((await daemon.ready()).tasks_count, 0);
});

clusterTest("many that collect one task at once all get the same answer", async (t) => {
  const daemon = await startTestDaemon(t);
  const { tasks } = await daemon.post([{ input: [1.5] }]);
  await daemon.daemon.idle();
  const target = taskGet(tasks[0]?.id ?? "");
  const answers = await Promise.all(Array.from({ length: 30 }, () => daemon.call(target)));
  const bodies = await Promise.all(answers.map((answer) => answer.text()));

  assert.equal(new Set(bodies).size, 1);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

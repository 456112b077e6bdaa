import assert from "node:assert/strict";
import { test } from "node:test";

import { openDatabase } from "../../src/store/sqlite/machine/connection.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { startAt9 } from "./account.ts";
import { JSON_TYPE, TASK_POST, unlessBusy } from "./answer.ts";
import { request, type PlainAnswer } from "./task-requests.ts";

const DAY = 86_400_000;
const BODY = '[{"input":1},{"typo":2},{"input":3}]';

async function post(
  daemon: Pick<TestDaemon, "url" | "account">,
  { key = "k1", body = BODY, more = [] as readonly string[] } = {},
): Promise<PlainAnswer> {
  const headers = [JSON_TYPE, `Idempotency-Key: ${key}`, ...more];
  return request(daemon, { method: "POST", target: TASK_POST, headers, body });
}

/** How many tasks the account has. */
async function countTasks(daemon: TestDaemon): Promise<number> {
  const { text } = await request(daemon, { target: "/v1/tasks?limit=1000" });
  return JSON.parse(text).tasks_count;
}

function isReplay({ header }: PlainAnswer): boolean {
  const value = header("idempotent-replayed");
  assert.ok(value === null || value === "true");
  return value === "true";
}

function countKept(file: string): number {
  const database = openDatabase(file, { readonly: true });
  const count = database.prepare("SELECT count(*) FROM idempotency_keys").pluck().get();
  database.close();
  return Number(count);
}

test("a repeated key and body returns the stored response byte for byte, and no task is made", async (t) => {
  const { clock, daemon } = await startAt9(t);
  const first = await post(daemon);
  assert.deepEqual([first.status, isReplay(first)], [200, false]);
  assert.match(first.text, /"tasks_error":1/);
  // The stored response has the tasks as they were posted.
  await daemon.daemon.idle();
  clock.advance(60_000);
  for (let i = 0; i < 3; i++) {
    const again = await post(daemon);
    assert.deepEqual([again.status, again.text, isReplay(again)], [200, first.text, true]);
  }
  assert.equal(await countTasks(daemon), 3);
  assert.equal((await daemon.ready()).tasks_count, 2);
});

clusterTest(
  "concurrent posts with one key make one set of tasks and get the same response",
  async (t) => {
    const daemon = await startTestDaemon(t);
    for (const key of ["a", "b", "c"]) {
      const before = await countTasks(daemon);
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => unlessBusy(() => post(daemon, { key }))),
      );
      assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
      assert.ok(answers.every(({ status }) => status === 200));
      assert.equal(answers.filter((answer) => !isReplay(answer)).length, 1);
      assert.equal((await countTasks(daemon)) - before, 3);
    }
  },
);

clusterTest(
  "another body with a used key is 42200, also if only white space or order differs",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const first = await post(daemon, { body: '{"input":1,"tag":"t"}' });
    const others = [
      ['{"input":2,"tag":"t"}', '{"tag":"t","input":1}', '{"input":1, "tag":"t"}'],
      ['{"input":1,"tag":"t"}\n', ' {"input":1,"tag":"t"}', '[{"input":1,"tag":"t"}]'],
      ['{"input":1.0,"tag":"t"}', '{"input":1,"tag":"\\u0074"}', "[]", '{"typo":1}', "[1]"],
    ].flat();
    for (const body of others) {
      const { status, code, header } = await post(daemon, { body });
      assert.deepEqual([status, code, header("idempotent-replayed")], [422, 42200, null], body);
    }
    assert.equal((await post(daemon, { body: '{"input":1,"tag":"t"}' })).text, first.text);
    assert.equal(await countTasks(daemon), 1);
  },
);

test("a stored response is kept for 24 hours from its first use, and the key is free after that", async (t) => {
  const { clock, daemon } = await startAt9(t);
  const first = await post(daemon);
  for (const hours of [12, 12]) {
    clock.jump(hours * 3_600_000);
    await daemon.daemon.idle();
    assert.equal((await post(daemon)).text, first.text);
    assert.equal((await post(daemon, { body: "{}" })).code, 42200);
  }
  clock.jump(1);
  await daemon.daemon.idle();
  const second = await post(daemon, { body: "{}" });
  assert.deepEqual([second.status, isReplay(second)], [200, false]);
  const again = await post(daemon, { body: "{}" });
  assert.deepEqual([again.text, isReplay(again)], [second.text, true]);
  assert.equal((await post(daemon)).code, 42200);
  assert.equal(await countTasks(daemon), 4);
});

test("the sweep erases stored responses older than 24 hours, and no younger ones", async (t) => {
  const { clock, daemon } = await startAt9(t);
  for (let i = 0; i < 5; i++) await post(daemon, { key: `old-${i}`, body: "{}" });
  clock.jump(3_600_000);
  const young = await post(daemon, { key: "young" });
  clock.jump(DAY - 3_600_000 - 120_000);
  clock.advance(60_000);
  await daemon.daemon.idle();
  assert.equal(countKept(daemon.file), 6);

  clock.advance(120_000);
  await daemon.daemon.idle();
  assert.equal(countKept(daemon.file), 1);
  assert.equal((await post(daemon, { key: "young" })).text, young.text);
});

test("a response other than 200 is not stored", async (t) => {
  const daemon = await startTestDaemon(t, { toml: "[limits]\nbody = 2048\n" });
  const hundredAndOne = JSON.stringify(Array.from({ length: 101 }, () => ({})));
  const cases = [
    [40502, ""],
    [40502, "[]"],
    [40503, "{"],
    [40503, "[1]"],
    [40006, hundredAndOne],
    [41300, `{"input":"${"x".repeat(2048)}"}`],
  ] as const;
  for (const [code, body] of cases) {
    assert.equal((await post(daemon, { body })).code, code, body.slice(0, 20));
  }
  const mended = await post(daemon);
  assert.deepEqual([mended.status, isReplay(mended)], [200, false]);
  assert.equal(countKept(daemon.file), 1);
});

test("a key that is empty, too long, repeated or not printable ASCII is 40000 and is not logged", async (t) => {
  const daemon = await startTestDaemon(t);
  const invalid = ["", " ", "x".repeat(256), "\xe9", "SECRET\xff", "a\tb", "\xf0\x9f\x98\x80"];
  for (const key of invalid) assert.equal((await post(daemon, { key })).code, 40000, key);
  for (const other of ["k1", ""]) {
    const more = [`idempotency-key: ${other}`];
    assert.equal((await post(daemon, { more })).code, 40000, other);
  }
  assert.equal(await countTasks(daemon), 0);
  for (const key of ["x".repeat(255), "!", "a, b", "k'--", "null", "__proto__", "%00", "SECRET"]) {
    const first = await post(daemon, { key, body: "{}" });
    const again = await post(daemon, { key, body: "{}" });
    assert.deepEqual([again.text, isReplay(again)], [first.text, true], key);
    assert.equal((await post(daemon, { key })).code, 42200);
  }
  assert.doesNotMatch(daemon.logLines.join(""), /SECRET/);
});

test("a key is free after its tasks are erased", async (t) => {
  const { clock, daemon } = await startAt9(t, "retention_days = 1\n");
  const first = await post(daemon);
  await daemon.daemon.idle();
  clock.jump(DAY + 60_000);
  await daemon.daemon.idle();
  clock.advance(60_000);
  await daemon.daemon.idle();
  const second = await post(daemon);
  assert.equal(isReplay(second), false);
  assert.notEqual(second.text, first.text);
  assert.equal(await countTasks(daemon), 3);
});

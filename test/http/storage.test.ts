import assert from "node:assert/strict";
import { statfsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";

import { DAY_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { limitFileSize } from "../helpers/file-size-limit.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { fieldsOf, keyPost, userDataOf } from "./account.ts";
import { ask, bearer, codeOf, JSON_TYPE, posting } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

const SMALL = '[limits]\ndatabase_size = "1MiB"\n';
const LARGE = JSON.stringify({ input: "x".repeat(200_000) });

async function startAt9(t: TestContext, toml: string) {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml });
  /** Posts until the database is full; returns the number of accepted tasks. */
  const fill = async (): Promise<number> => {
    for (let taken = 0; taken < 20; taken++) {
      const { code } = await ask(daemon.url, posting(daemon, LARGE));
      if (code === 50700) return taken;
      assert.equal(code, 20000);
      await daemon.daemon.idle();
      clock.advance(1000);
    }
    return assert.fail("it never fills up");
  };
  return { daemon, clock, fill };
}

async function totalOf(daemon: TestDaemon): Promise<number> {
  const { tasks } = await userDataOf(daemon);
  return Object.values(tasks).reduce((sum, count) => sum + count, 0);
}

/** The log lines about free space. */
function roomLines({ logLines }: TestDaemon): readonly string[] {
  // The condition about the disk is a line of its own.
  return logLines.filter((line) => /50700|room again/.test(line) && !line.includes('"condition"'));
}

test("a full database takes no tasks and access requests, and keys, cancels, lists and probes work", async (t) => {
  const { daemon, fill } = await startAt9(t, SMALL);
  const { tasks } = await daemon.post({ start_at: "2031-01-01T00:00:00.000Z" });
  const taken = 1 + (await fill());
  assert(taken >= 3, `${taken}`);

  const refused = await ask(daemon.url, posting(daemon, '[{"input":1},{"input":2}]'));
  assert.deepEqual(refused.body, { status_code: 50700, status_message: "Insufficient Storage." });
  const access = { method: "POST", target: "/v1/access_requests", headers: [JSON_TYPE] };
  assert.equal(await codeOf(daemon.url, { ...access, body: '{"email":"a@b.c"}' }), 50700);
  assert.equal(await totalOf(daemon), taken);
  const headers = [bearer(daemon)];
  const list = await ask(daemon.url, { target: "/v1/tasks", headers });
  assert.equal(list.body.tasks_count, taken);
  assert.equal(await codeOf(daemon.url, keyPost(daemon)), 20000);
  const target = `/v1/tasks/task_cancel/${tasks[0]?.id}`;
  assert.equal(await codeOf(daemon.url, { method: "POST", target, headers }), 20000);

  const ready = await ask(daemon.url, { target: "/readyz" });
  assert.equal(ready.response.status, 503);
  assert.match(ready.response.body.toString(), /limits\.database_size/);
  assert.equal((await ask(daemon.url, { target: "/livez" })).response.status, 200);
  const status = await ask(daemon.url, { target: "/v1/appendix/status" });
  assert.match(status.response.body.toString(), /"api":"degraded"/);
});

test("accepted tasks run and are delivered while the database is full", async (t) => {
  const { daemon, clock, fill } = await startAt9(t, SMALL);
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const start_at = new Date(NOW + 10 * MINUTE_MS).toISOString();
  const { tasks } = await daemon.post([
    { postback_url: receiver.url("/now") },
    { postback_url: receiver.url("/later"), start_at },
  ]);
  await receiver.next();
  await daemon.daemon.idle();
  await fill();

  receiver.answer({ kind: "status", status: 204 });
  clock.advance(MINUTE_MS);
  assert.equal((await receiver.next()).headers["x-attempt"], "2");
  await daemon.daemon.idle();
  clock.jump(10 * MINUTE_MS);
  assert.equal((await receiver.next()).url, "/later");
  await daemon.daemon.idle();

  for (const { id } of tasks) assert.equal((await daemon.get(id)).state, "completed");
  assert.equal((await daemon.ready("?limit=1000")).tasks_count, await totalOf(daemon));
  assert.equal(await codeOf(daemon.url, posting(daemon, "{}")), 50700);
});

test("the first post after retention freed space is accepted", async (t) => {
  const { daemon, clock, fill } = await startAt9(t, SMALL);
  const taken = await fill();
  clock.jump(31 * DAY_MS);
  await daemon.daemon.idle();

  assert.equal(await codeOf(daemon.url, posting(daemon, "{}")), 20000);
  assert.equal((await ask(daemon.url, { target: "/readyz" })).response.status, 200);
  await daemon.daemon.idle();
  assert.equal(await totalOf(daemon), 1);
  assert(taken >= 2);
  assert.match(roomLines(daemon).join(), /50700.*limits\.database_size.*,.*there is room again/s);
});

test("the first post after the database has filled up is 50700", async (t) => {
  const { daemon, clock } = await startAt9(t, SMALL);
  // All within the second after the last measurement.
  for (let i = 0; i < 8; i++) {
    assert.equal(await codeOf(daemon.url, posting(daemon, LARGE)), 20000);
  }
  await daemon.daemon.idle();
  clock.advance(1000);
  assert.equal(await codeOf(daemon.url, posting(daemon, "{}")), 50700);
});

test("below limits.disk_free posts are 50700, with one warning in the log", async (t) => {
  const { bavail, bsize } = statfsSync(tmpdir());
  // Other processes fill and empty the disk meanwhile.
  const free = bavail * bsize;
  const { daemon: fine } = await startAt9(t, `[limits]\ndisk_free = ${Math.floor(free / 2)}\n`);
  assert.equal(await codeOf(fine.url, posting(fine, "{}")), 20000);

  const { daemon, clock } = await startAt9(t, `[limits]\ndisk_free = ${free * 2}\n`);
  for (let i = 0; i < 30; i++) {
    assert.equal(await codeOf(daemon.url, posting(daemon, "{}")), 50700);
    clock.advance(100);
  }
  const { response } = await ask(daemon.url, { target: "/readyz" });
  assert.match(response.body.toString(), /"unavailable".*limits\.disk_free/);
  assert.equal(await totalOf(daemon), 0);

  const [line, ...others] = roomLines(daemon);
  assert.match(line ?? "", /"level":"warn".*50700.*limits\.disk_free/);
  assert.deepEqual(others, []);
});

const UNLIMITED = "[limits]\ndatabase_size = 0\ndisk_free = 0\n";

/** Lets no file grow; returns why that is impossible here, or null. */
function fillUp(t: TestContext, { file }: TestDaemon): string | null {
  return limitFileSize(t, statSync(`${file}-wal`).size);
}

// A limit for the files of this process ends a write as a disk quota does.
test("after a write without space /readyz is 503 until a write succeeds", async (t) => {
  const { daemon, clock } = await startAt9(t, UNLIMITED);
  const ready = async () =>
    fieldsOf<{ status: string }>(await ask(daemon.url, { target: "/readyz" }));
  await daemon.post({});
  await daemon.daemon.idle();
  const skip = fillUp(t, daemon);
  if (skip !== null) return t.skip(skip);

  assert.deepEqual(await ready(), { status: "ok" });
  assert.equal(await codeOf(daemon.url, posting(daemon, "{}")), 50700);
  for (let i = 0; i < 5; i++) {
    assert.equal((await ready()).status, "unavailable");
    assert.equal(await codeOf(daemon.url, posting(daemon, "{}")), 50700);
    clock.advance(1000);
  }
  assert.equal(await totalOf(daemon), 1);

  limitFileSize(t, "unlimited");
  clock.advance(1000);
  assert.deepEqual(await ready(), { status: "ok" });
  assert.equal(await codeOf(daemon.url, posting(daemon, "{}")), 20000);
  await daemon.daemon.idle();
  const [begun, over, ...others] = roomLines(daemon);
  assert.match(begun ?? "", /50700.*the last write found no room/);
  assert.match(over ?? "", /there is room again/);
  assert.deepEqual(others, []);
});

test("attempts that end while nothing can be written are recorded afterwards, with few log lines", async (t) => {
  // The second attempts must not time out while the clock advances.
  const webhooks = '[webhooks]\ntimeout = "30s"\nretry_after = ["1s"]\nallow = ["127.0.0.1"]\n';
  const { daemon, clock } = await startAt9(t, UNLIMITED + webhooks);
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  // A host that has not responded yet gets four concurrent attempts.
  const posted = Array.from({ length: 4 }, (_, i) => ({ postback_url: receiver.url(`/${i}`) }));
  const { tasks } = await daemon.post(posted);
  for (let i = 0; i < 4; i++) await receiver.next();
  const skip = fillUp(t, daemon);
  if (skip !== null) return t.skip(skip);
  const before = daemon.logLines.length;

  // All of them time out, and none of that can be written.
  for (let i = 0; i < 120; i++) {
    clock.advance(1000);
    await ask(daemon.url, { target: "/livez" });
  }
  assert.equal((await ask(daemon.url, { target: "/readyz" })).response.status, 503);
  const lines = daemon.logLines.slice(before);
  assert(lines.length > 0 && lines.length <= 8, lines.join(""));

  limitFileSize(t, "unlimited");
  receiver.answer({ kind: "status", status: 204 });
  const isWritten = () => /no step waits any more/.test(daemon.logLines.join(""));
  while (!isWritten()) {
    clock.advance(1000);
    await ask(daemon.url, { target: "/livez" });
  }
  // Due a second after the failure, which was long ago.
  for (let i = 0; i < 4; i++) assert.equal((await receiver.next()).headers["x-attempt"], "2");
  await daemon.daemon.idle();
  for (const { id } of tasks) assert.equal((await daemon.get(id)).state, "completed");
});

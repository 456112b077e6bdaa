import assert from "node:assert/strict";
import { statfsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";

import { DAY_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { limitFileSize } from "../helpers/file-size-limit.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { keyPost, userDataOf } from "./account.ts";
import { ask, bearer, JSON_TYPE, posting } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

const SMALL = '[limits]\ndatabase_size = "1MiB"\n';
const NO_DISK = `[limits]\ndisk_free = ${2 ** 50}\n`;
const LARGE = JSON.stringify({ input: "x".repeat(200_000) });

async function startAt9(t: TestContext, toml: string) {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml });
  /** Posts until there is no more room; answers how many were taken in. */
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

/** The lines of the log that speak of room. */
function roomLines({ logLines }: TestDaemon): readonly string[] {
  // The condition about the disk is a line of its own.
  return logLines.filter((line) => /50700|room again/.test(line) && !line.includes('"condition"'));
}

test("a full database takes in nothing new, and says so to clients, probes and the operator", async (t) => {
  const { daemon, fill } = await startAt9(t, SMALL);
  const taken = await fill();
  assert(taken >= 2, `${taken}`);

  const refused = await ask(daemon.url, posting(daemon, '[{"input":1},{"input":2}]'));
  assert.equal(refused.code, 50700);
  assert.equal(refused.response.status, 507);
  assert.deepEqual(refused.body, { status_code: 50700, status_message: "Insufficient Storage." });
  assert.equal((await ask(daemon.url, posting(daemon, '{"typo":1}'))).code, 50700);
  assert.equal(await totalOf(daemon), taken);
  const list = await ask(daemon.url, { target: "/v1/tasks", headers: [bearer(daemon)] });
  assert.equal(list.body.tasks_count, taken);

  const ready = await ask(daemon.url, { target: "/readyz" });
  assert.equal(ready.response.status, 503);
  const reason = "the database holds as much as limits.database_size";
  assert.deepEqual(ready.body, { status: "unavailable", reason });
  assert.equal((await ask(daemon.url, { target: "/livez" })).response.status, 200);
  const status = await ask(daemon.url, { target: "/v1/appendix/status" });
  assert.match(
    status.response.body.toString(),
    /"status":"degraded","components":\{"api":"degraded"/,
  );
});

test("what is wrong with a post is told before that there is no room", async (t) => {
  const { daemon } = await startAt9(t, NO_DISK);
  assert.equal((await ask(daemon.url, posting(daemon, "{"))).code, 40503);
  assert.equal((await ask(daemon.url, posting(daemon, "[]"))).code, 40502);
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50700);
});

test("what was taken in before runs, is delivered and can be read while there is no room", async (t) => {
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
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50700);
});

test("keys can be made and tasks cancelled while there is no room; access cannot be asked for", async (t) => {
  const { daemon, fill } = await startAt9(t, SMALL);
  const { tasks } = await daemon.post({ start_at: "2031-01-01T00:00:00.000Z" });
  await fill();

  assert.equal((await ask(daemon.url, keyPost(daemon))).code, 20000);
  const target = `/v1/tasks/task_cancel/${tasks[0]?.id}`;
  const headers = [bearer(daemon)];
  assert.equal((await ask(daemon.url, { method: "POST", target, headers })).code, 20000);
  const access = { method: "POST", target: "/v1/access_requests", headers: [JSON_TYPE] };
  assert.equal((await ask(daemon.url, { ...access, body: '{"email":"a@b.c"}' })).code, 50700);
});

test("an answer that was kept for an Idempotency-Key is repeated while there is no room", async (t) => {
  const { daemon, fill } = await startAt9(t, SMALL);
  const post = posting(daemon, '{"input":1}');
  const request = { ...post, headers: [...(post.headers ?? []), "Idempotency-Key: once"] };
  const first = await ask(daemon.url, request);
  await daemon.daemon.idle();
  await fill();

  const again = await ask(daemon.url, request);
  assert.equal(again.code, 20000);
  assert.deepEqual(again.response.body, first.response.body);
});

test("when retention has made room the very first post is taken in again", async (t) => {
  const { daemon, clock, fill } = await startAt9(t, SMALL);
  const taken = await fill();
  clock.jump(31 * DAY_MS);
  await daemon.daemon.idle();

  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 20000);
  assert.equal((await ask(daemon.url, { target: "/readyz" })).response.status, 200);
  await daemon.daemon.idle();
  assert.equal(await totalOf(daemon), 1);
  assert(taken >= 2);
  assert.match(roomLines(daemon).join(), /50700.*limits\.database_size.*,.*there is room again/s);
});

test("the first post after the database has filled up is refused, however long nobody asked", async (t) => {
  const { daemon, clock } = await startAt9(t, SMALL);
  // All within the second in which nobody looks.
  for (let i = 0; i < 8; i++) {
    assert.equal((await ask(daemon.url, posting(daemon, LARGE))).code, 20000);
  }
  await daemon.daemon.idle();
  clock.advance(1000);
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50700);
});

test("a disk with too little room is said once, not for every request", async (t) => {
  const { daemon, clock } = await startAt9(t, NO_DISK);
  for (let i = 0; i < 30; i++) {
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50700);
    clock.advance(100);
  }
  const ready = await ask(daemon.url, { target: "/readyz" });
  const reason = "the disk has less free space than limits.disk_free";
  assert.deepEqual(ready.body, { status: "unavailable", reason });
  assert.equal(await totalOf(daemon), 0);

  const [line, ...others] = roomLines(daemon);
  assert.match(line ?? "", /"level":"warn".*50700.*limits\.disk_free/);
  assert.deepEqual(others, []);
});

test("while more of the disk is free than limits.disk_free tasks are taken in, and while less is none", async (t) => {
  const { bavail, bsize } = statfsSync(tmpdir());
  // Others fill and empty the same disk meanwhile.
  const free = bavail * bsize;
  for (const [floor, code] of [
    [Math.floor(free / 2), 20000],
    [free * 2, 50700],
  ] as const) {
    const { daemon } = await startAt9(t, `[limits]\ndisk_free = ${floor}\n`);
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, code, `${floor} of ${free}`);
  }
});

test("without quota and floor nothing is too large", async (t) => {
  const { daemon, clock } = await startAt9(t, "[limits]\ndatabase_size = 0\ndisk_free = 0\n");
  for (let i = 0; i < 10; i++) {
    assert.equal((await ask(daemon.url, posting(daemon, LARGE))).code, 20000);
    clock.advance(1000);
  }
  assert.deepEqual(roomLines(daemon), []);
});

const UNLIMITED = "[limits]\ndatabase_size = 0\ndisk_free = 0\n";
const NO_ROOM = /^the last write found no room: the disk, a quota or a file-size limit is full/;

/** Lets no file grow any more; why that cannot be had here, or null. */
function fillUp(t: TestContext, { file }: TestDaemon): string | null {
  return limitFileSize(t, statSync(`${file}-wal`).size);
}

// By a limit for this process's files, which ends a write as a disk quota does.
test("while the last write found no room /readyz says no, whatever the floor is, and then all goes on", async (t) => {
  const { daemon, clock } = await startAt9(t, UNLIMITED);
  const ready = async () => (await ask(daemon.url, { target: "/readyz" })).body;
  await daemon.post({});
  await daemon.daemon.idle();
  const skip = fillUp(t, daemon);
  if (skip !== null) return t.skip(skip);

  assert.deepEqual(await ready(), { status: "ok" });
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50700);
  for (let i = 0; i < 5; i++) {
    const { status, reason } = (await ready()) as { status?: string; reason?: string };
    assert.equal(status, "unavailable");
    assert.match(reason ?? "", NO_ROOM);
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50700);
    // Each second it is found out anew.
    clock.advance(1000);
  }
  assert.equal(await totalOf(daemon), 1);

  limitFileSize(t, "unlimited");
  clock.advance(1000);
  assert.deepEqual(await ready(), { status: "ok" });
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 20000);
  await daemon.daemon.idle();
  const [begun, over, ...others] = roomLines(daemon);
  assert.match(begun ?? "", /50700.*the last write found no room/);
  assert.match(over ?? "", /there is room again/);
  assert.deepEqual(others, []);
});

test("what is in flight while there is no room waits, is told by few lines, and is recorded afterwards", async (t) => {
  // Long enough for the second attempts to outlast whatever the clock is moved by while they are under way.
  const webhooks = '[webhooks]\ntimeout = "30s"\nretry_after = ["1s"]\nallow = ["127.0.0.1"]\n';
  const { daemon, clock } = await startAt9(t, UNLIMITED + webhooks);
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  // As many as a host is sent at once that has not answered yet.
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

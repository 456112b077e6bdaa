import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { shownDelivery, type ShownDelivery } from "./shown-delivery.ts";

// Off the full second, so that what is due falls between two ticks.
const NOW = Date.parse("2030-01-31T09:00:00.123Z");
const SECOND = 1000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

interface Parts {
  readonly clock: FakeClock;
  readonly receiver: Receiver;
  readonly daemon: TestDaemon;
}

async function start(t: TestContext, toml = ""): Promise<Parts> {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock, toml });
  return { clock, receiver, daemon };
}

async function restart(t: TestContext, { clock, daemon }: Parts): Promise<TestDaemon> {
  await daemon.daemon.stop();
  const { folder, account } = daemon;
  return startTestDaemon(t, { clock, folder, account });
}

/** Lets time pass, and everything that it made due come to its end. */
async function pass({ clock, daemon }: Parts, ms: number): Promise<void> {
  clock.advance(ms);
  await daemon.daemon.idle();
}

/** Posts tasks with a postback each, and waits for the end of their first attempts. */
async function send({ daemon, receiver }: Parts, count = 1): Promise<readonly string[]> {
  const task = { postback_url: receiver.url() };
  const { tasks } = await daemon.post(Array.from({ length: count }, () => task));
  await daemon.daemon.idle();
  return tasks.map(({ id }) => id);
}

function shown({ daemon }: Parts, id = ""): Promise<ShownDelivery> {
  return shownDelivery((path) => daemon.call(path), id);
}

function attemptsOf(receiver: Receiver): readonly (string | undefined)[] {
  return receiver.requests.map(({ headers }) => headers["x-attempt"]);
}

test("retries are due 1, 5 and 15 minutes after the failure to the millisecond, whatever restarts in between", async (t) => {
  let parts = await start(t);
  const { clock, receiver } = parts;
  receiver.answer({ kind: "status", status: 500 });
  const [id] = await send(parts);

  for (const [index, minutes] of [1, 5, 15].entries()) {
    const { state, attempts } = await shown(parts, id);
    const [failed, next] = attempts.slice(index);
    assert.ok(failed !== undefined && next !== undefined);
    assert.equal(state, "scheduled");
    assert.equal(next.dueAt, failed.endedAt + minutes * MINUTE);
    parts = { ...parts, daemon: await restart(t, parts) };

    await pass(parts, next.dueAt - clock.now() - 1);
    assert.equal(receiver.requests.length, index + 1, "nothing is sent a millisecond before");
    await pass(parts, SECOND);
    assert.equal(receiver.requests.length, index + 2);
    const started = (await shown(parts, id)).attempts[index + 1];
    const lateMs = (started?.startedAt ?? NaN) - next.dueAt;
    assert.ok(lateMs >= 0 && lateMs <= SECOND, `${lateMs} ms late`);
  }

  await pass(parts, 24 * HOUR);
  const { state, attempts } = await shown(parts, id);
  assert.equal(state, "given_up");
  assert.deepEqual(
    attempts.map(({ number }) => number),
    [1, 2, 3, 4],
  );
  assert.deepEqual(attemptsOf(receiver), ["1", "2", "3", "4"]);
});

test("a redelivery begins a new series: X-Attempt 1, and retries after 1 minute again", async (t) => {
  const parts = await start(t);
  const { clock, receiver, daemon } = parts;
  receiver.answer({ kind: "status", status: 500 });
  const [id = ""] = await send(parts);
  for (const minutes of [1, 5, 15]) await pass(parts, minutes * MINUTE + SECOND);
  assert.equal((await shown(parts, id)).state, "given_up");

  await daemon.call(`/v1/tasks/redeliver/${id}`, { method: "POST" });
  await daemon.daemon.idle();

  const { attempts } = await shown(parts, id);
  assert.deepEqual(
    attempts.slice(4).map(({ number }) => number),
    [1, 2],
  );
  assert.equal(attempts[5]?.dueAt, (attempts[4]?.endedAt ?? NaN) + MINUTE);
  await pass(parts, (attempts[5]?.dueAt ?? NaN) - clock.now() + SECOND);
  assert.deepEqual(attemptsOf(receiver), ["1", "2", "3", "4", "1", "2"]);
});

for (const [direction, byMs] of [
  ["forward", HOUR],
  ["back", -HOUR],
] as const) {
  test(`a clock that is set ${direction} by an hour moves no retry: it comes a minute after the failure`, async (t) => {
    const parts = await start(t);
    const { clock, receiver, daemon } = parts;
    receiver.answerNext(
      ...Array.from({ length: 5 }, () => ({ kind: "status", status: 500 }) as const),
    );
    const [id] = await send(parts, 5);
    const failedAt = clock.monotonic();
    const [failed] = (await shown(parts, id)).attempts;
    await pass(parts, 20 * SECOND);

    clock.step(byMs);
    await pass(parts, SECOND);

    assert.equal(receiver.requests.length, 5, "there is no burst");
    const { attempts } = await shown(parts, id);
    assert.equal(attempts[1]?.dueAt, (failed?.endedAt ?? NaN) + MINUTE + byMs);
    await send(parts);
    assert.equal(receiver.requests.length, 6, "first attempts are not held");
    await pass(parts, failedAt + MINUTE - 1 - clock.monotonic());
    assert.equal(receiver.requests.length, 6, "it is not early");
    await pass(parts, SECOND);
    assert.equal(receiver.requests.length, 11, "it is not late");
    await pass(parts, 2 * HOUR);
    assert.equal(receiver.requests.length, 11);
    assert.match(daemon.logLines.join(""), /the machine's clock was set/);
  });

  test(`a clock that is set ${direction} while an attempt is under way moves nothing: the wait counts from the failure`, async (t) => {
    const parts = await start(t);
    const { clock, receiver, daemon } = parts;
    receiver.answerNext({ kind: "hang" });
    const { tasks } = await daemon.post({ postback_url: receiver.url() });
    await receiver.waitFor(1);
    clock.step(byMs);
    clock.advance(10 * SECOND);
    await daemon.daemon.idle();
    const timedOutAt = clock.monotonic();

    const { attempts } = await shown(parts, tasks[0]?.id);
    assert.equal(attempts[0]?.outcome, "timed_out");
    assert.equal(attempts[1]?.dueAt, clock.now() + MINUTE);
    await pass(parts, timedOutAt + MINUTE - 1 - clock.monotonic());
    assert.equal(receiver.requests.length, 1);
    await pass(parts, SECOND);
    assert.equal(receiver.requests.length, 2);
  });
}

test("a clock that is set back by an hour does not hold up the next run of a task that failed", async (t) => {
  const toml = `[types.fails]\ncommand = ["sh", "-c", "exit 1"]\nretries = 1\n`;
  const parts = await start(t, toml);
  const { clock, daemon } = parts;
  const startAt = new Date(clock.now() + MINUTE).toISOString();
  const { tasks } = await daemon.post([{ type: "fails" }, { type: "fails", start_at: startAt }]);
  const named = tasks[1];
  await daemon.daemon.idle();
  assert.equal((await daemon.get(tasks[0]?.id ?? "")).state, "queued");

  clock.step(-HOUR);
  await pass(parts, SECOND);
  await pass(parts, 2 * MINUTE);

  // A time that its poster named is one of the wall clock.
  assert.equal((await daemon.get(named?.id ?? "")).runs, 0);
  const { state, runs } = await daemon.get(tasks[0]?.id ?? "");
  assert.deepEqual([state, runs], ["failed", 2]);
});

test("a clock that is set again and again moves no retry", async (t) => {
  const parts = await start(t);
  const { clock, receiver } = parts;
  receiver.answerNext({ kind: "status", status: 500 });
  await send(parts);
  const failedAt = clock.monotonic();

  for (const byMs of [HOUR, -3 * HOUR, 5 * MINUTE, -24 * HOUR, HOUR]) {
    clock.step(byMs);
    await pass(parts, 10 * SECOND);
  }

  assert.equal(receiver.requests.length, 1);
  await pass(parts, failedAt + MINUTE - 1 - clock.monotonic());
  assert.equal(receiver.requests.length, 1);
  await pass(parts, SECOND);
  assert.equal(receiver.requests.length, 2);
});

test("after an hour that nobody saw pass, what was due is sent once, and the next wait counts from then", async (t) => {
  const parts = await start(t);
  const { clock, receiver } = parts;
  receiver.answer({ kind: "status", status: 500 });
  const ids = await send(parts, 20);

  clock.jump(HOUR);
  await parts.daemon.daemon.idle();

  assert.deepEqual(attemptsOf(receiver).slice(20), Array(20).fill("2"));
  for (const id of ids) {
    const { attempts } = await shown(parts, id);
    assert.equal(attempts.length, 3);
    assert.equal(attempts[2]?.dueAt, (attempts[1]?.endedAt ?? NaN) + 5 * MINUTE);
  }
  await pass(parts, MINUTE);
  assert.equal(receiver.requests.length, 40);
});

test("after a stop of a day each retry that was due meanwhile is sent once", async (t) => {
  const parts = await start(t);
  const { clock, receiver, daemon } = parts;
  receiver.answer({ kind: "status", status: 500 });
  const ids = await send(parts, 20);
  await daemon.daemon.stop();
  clock.advance(24 * HOUR);
  receiver.answer({ kind: "status", status: 204 });

  const { folder, account } = daemon;
  const again = await startTestDaemon(t, { clock, folder, account });
  await again.daemon.idle();
  await pass({ ...parts, daemon: again }, HOUR);

  assert.deepEqual(attemptsOf(receiver).slice(20), Array(20).fill("2"));
  const sent = receiver.requests.slice(20).map(({ headers }) => headers["webhook-id"]);
  assert.deepEqual(new Set(sent), new Set(ids.map((id) => `${id}-postback`)));
});

for (const [how, { stopped = 0, started = 0 }] of [
  ["set back by a day while it was stopped", { stopped: -24 * HOUR }],
  [
    "a year behind at the start and set right then",
    { stopped: -8760 * HOUR, started: 8760 * HOUR },
  ],
] as const satisfies readonly (readonly [string, Readonly<Record<string, number>>])[]) {
  test(`no retry waits for longer than 15 minutes when the clock was ${how}`, async (t) => {
    const parts = await start(t);
    const { clock, receiver, daemon } = parts;
    receiver.answerNext({ kind: "status", status: 500 });
    await send(parts);
    await daemon.daemon.stop();
    clock.step(stopped);

    const { folder, account } = daemon;
    const again = { ...parts, daemon: await startTestDaemon(t, { clock, folder, account }) };
    await pass(again, SECOND);
    clock.step(started);
    await pass(again, 15 * MINUTE);

    assert.deepEqual(attemptsOf(receiver), ["1", "2"]);
  });
}

test("Retry-After is recorded and moves nothing", async (t) => {
  const parts = await start(t);
  const { receiver, daemon } = parts;
  const headers = { "retry-after": "3600" };
  receiver.answerNext({ kind: "status", status: 503, headers });
  const [id = ""] = await send(parts);

  const store = await openSqliteStore({ file: daemon.file, writer: "inline", backlogMax: 1 });
  const [delivery] = (await store.listDeliveries({ accountId: 1, id })) ?? [];
  await store.close();
  const [failed, next] = delivery?.attempts ?? [];
  assert.equal(failed?.retryAfter, "3600");
  assert.equal(next?.dueAt, (failed.endedAt ?? NaN) + MINUTE);
  await pass(parts, MINUTE + SECOND);
  assert.equal(receiver.requests.length, 2);
});

test("each attempt is signed afresh: the second in which it started, and both secrets while one is rotated", async (t) => {
  const parts = await start(t);
  const { receiver, daemon } = parts;
  receiver.answer({ kind: "status", status: 500 });
  const [id] = await send(parts);
  const store = await openSqliteStore({ file: daemon.file, writer: "inline", backlogMax: 1 });
  const next = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  await store.rotateSecret({ login: daemon.account.login, next });
  await store.close();
  await pass(parts, MINUTE + SECOND);

  const [first, second] = receiver.requests;
  assert.ok(first !== undefined && second !== undefined);
  assert.equal(first.headers["x-signature-next"], undefined);
  assert.match(second.headers["x-signature-next"] ?? "", /^sha256=[0-9a-f]{64}$/);
  assert.equal(second.headers["x-signature"], first.headers["x-signature"]);
  assert.match(second.headers["webhook-signature"] ?? "", /^v1,\S+ v1,\S+$/);
  const { attempts } = await shown(parts, id);
  for (const [index, { headers }] of [first, second].entries()) {
    const startedAt = attempts[index]?.startedAt ?? NaN;
    assert.equal(Number(headers["webhook-timestamp"]), Math.floor(startedAt / SECOND));
  }
});

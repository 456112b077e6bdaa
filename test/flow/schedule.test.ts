import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { shownDelivery, type ShownDelivery } from "./shown-delivery.ts";

// Due times fall between two ticks.
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

/** Lets time pass, and waits for the end of due work. */
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

test("retries are due exactly 1, 5 and 15 minutes after a failure, restarts in between included", async (t) => {
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

for (const [direction, byMs] of [
  ["forward", HOUR],
  ["back", -HOUR],
] as const) {
  test(`a clock set ${direction} by an hour moves no retry`, async (t) => {
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
}

test("a clock set back by an hour does not delay the next run of a failed task", async (t) => {
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

  // start_at follows the wall clock.
  assert.equal((await daemon.get(named?.id ?? "")).runs, 0);
  const { state, runs } = await daemon.get(tasks[0]?.id ?? "");
  assert.deepEqual([state, runs], ["failed", 2]);
});

test("after a suspend of an hour each due retry is sent once, and the next wait starts then", async (t) => {
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

test("after a stop of a day each due retry is sent once", async (t) => {
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

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test, type TestContext } from "node:test";

import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { openPlace } from "./place.ts";
import { HOUR, MINUTE, NOW, SECOND, World } from "./world.ts";

/** An attempt as `GET /v1/tasks/deliveries/{id}` shows it, its times in milliseconds. */
interface ShownAttempt {
  readonly number: number;
  readonly dueAt: number;
  /** NaN while it has not started. */
  readonly startedAt: number;
  /** NaN while it has not ended. */
  readonly endedAt: number;
  readonly outcome: string | null;
}

interface ShownDelivery {
  readonly state: string;
  readonly attempts: readonly ShownAttempt[];
}

/** The one delivery of a task, read from the API; `call` makes a request with the account's key. */
async function shownDelivery(
  call: (path: string) => Promise<Response>,
  id: string,
): Promise<ShownDelivery> {
  const response = await call(`/v1/tasks/deliveries/${id}`);
  assert.equal(response.status, 200);
  // The contract has this shape.
  const { deliveries } = (await response.json()) as { deliveries: readonly WireDelivery[] };
  const [delivery, ...others] = deliveries;
  assert.ok(delivery !== undefined && others.length === 0, "not exactly one delivery");
  return { state: delivery.state, attempts: delivery.attempts.map(toShown) };
}

interface WireDelivery {
  readonly state: string;
  readonly attempts: readonly WireAttempt[];
}

interface WireAttempt {
  readonly number: number;
  readonly due_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly outcome: string | null;
}

function toShown(attempt: WireAttempt): ShownAttempt {
  return {
    number: attempt.number,
    dueAt: Date.parse(attempt.due_at),
    startedAt: Date.parse(attempt.started_at ?? ""),
    endedAt: Date.parse(attempt.ended_at ?? ""),
    outcome: attempt.outcome,
  };
}

interface Parts {
  readonly world: World;
  readonly receiver: Receiver;
}

/** A daemon whose clock is between two ticks: a tick each second sends due attempts. */
async function start(t: TestContext, toml = ""): Promise<Parts> {
  return {
    world: await World.start(t, { now: NOW + 123, toml }),
    receiver: await startReceiver(t),
  };
}

/** Posts tasks with a postback each, and waits for the end of their first attempts. */
async function send({ world, receiver }: Parts, count = 1): Promise<readonly string[]> {
  const task = { postback_url: receiver.url() };
  const { tasks } = await world.daemon.post(Array.from({ length: count }, () => task));
  await world.daemon.daemon.idle();
  return tasks.map(({ id }) => id);
}

function shown({ world }: Parts, id = ""): Promise<ShownDelivery> {
  return shownDelivery((path) => world.daemon.call(path), id);
}

function attemptsOf({ requests }: Receiver): readonly (string | undefined)[] {
  return requests.map(({ headers }) => headers["x-attempt"]);
}

const FAILED = { kind: "status", status: 500 } as const;

test("a large postback, which another thread makes, is the body of task_get at every attempt", async (t) => {
  const { world, receiver } = await start(t);
  receiver.answerNext(FAILED);
  const { call, daemon, account } = world.daemon;
  const input = "\u00e9\u{1f600}x".repeat(40_000);
  const id = await world.post({ input, postback_url: receiver.url("/") });
  await daemon.idle();
  await world.advance(MINUTE + SECOND);

  const got = await call(`/v1/tasks/task_get/${id}`);
  const body = Buffer.from(await got.arrayBuffer());
  const signature = `sha256=${createHmac("sha256", account.secret).update(body).digest("hex")}`;
  assert.equal(receiver.requests.length, 2);
  for (const [index, { rawBody, headers }] of receiver.requests.entries()) {
    // Without `equal`, whose message would print both.
    assert(rawBody.equals(body));
    assert.equal(headers["content-length"], String(body.length));
    assert.equal(headers["x-attempt"], String(index + 1));
    assert.equal(headers["x-signature"], signature);
  }
});

test("an attempt that a stop interrupts is sent again immediately and uses no retry", async (t) => {
  const toml = '[webhooks]\nallow = ["127.0.0.1"]\ntimeout = "60s"\nretry_after = []\n';
  const { world, receiver } = await start(t, toml);
  receiver.answerNext({ kind: "hang" });
  const id = await world.post({ postback_url: receiver.url() });
  await receiver.waitFor(1);
  const stopped = world.daemon.daemon.stop();
  world.clock.advance(18 * SECOND);
  await stopped;

  await world.restart();
  await world.daemon.daemon.idle();

  const { attempts } = await shown({ world, receiver }, id);
  assert.deepEqual(
    attempts.map(({ outcome, number }) => [outcome, number]),
    [
      ["interrupted", 1],
      ["delivered", 2],
    ],
  );
  assert.equal(receiver.requests[1]?.headers["x-attempt"], "2");
  assert.equal((await world.daemon.ready()).tasks_count, 1);
});

test("an attempt that kill -9 interrupts is sent again with the next X-Attempt and uses no retry", async (t) => {
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "hang" }, { kind: "hang" }, { kind: "status", status: 500 });
  const toml = '[webhooks]\nallow = ["127.0.0.1"]\nretry_after = ["1h"]\n';
  const place = await openPlace(t, toml);
  let { kill, client } = await place.start();
  const id = await client.post({ postback_url: receiver.url() });
  for (let kills = 1; kills <= 2; kills++) {
    await receiver.waitFor(kills);
    await kill();
    ({ kill, client } = await place.start());
  }

  // A receiver has the response before the daemon records it.
  let delivery = await shownDelivery(client.call, id);
  while (delivery.attempts.length < 4) delivery = await shownDelivery(client.call, id);

  const { state, attempts } = delivery;
  assert.equal(state, "scheduled");
  assert.deepEqual(
    attempts.map(({ number, outcome }) => [number, outcome]),
    [
      [1, "interrupted"],
      [2, "interrupted"],
      [3, "failed"],
      [4, null],
    ],
  );
  const sent = receiver.requests.map(({ headers }) => headers["x-attempt"]);
  assert.deepEqual(sent, ["1", "2", "3"]);
  assert.equal(attempts[1]?.dueAt, attempts[0]?.endedAt);
  assert.equal(attempts[3]?.dueAt, (attempts[2]?.endedAt ?? NaN) + 60 * MINUTE);
});

test("retries are due exactly 1, 5 and 15 minutes after a failure, restarts in between included", async (t) => {
  const parts = await start(t);
  const { world, receiver } = parts;
  receiver.answer(FAILED);
  const [id] = await send(parts);

  for (const [index, minutes] of [1, 5, 15].entries()) {
    const { state, attempts } = await shown(parts, id);
    const [failed, next] = attempts.slice(index);
    assert.ok(failed !== undefined && next !== undefined);
    assert.equal(state, "scheduled");
    assert.equal(next.dueAt, failed.endedAt + minutes * MINUTE);
    await world.restart();

    await world.advance(next.dueAt - world.clock.now() - 1);
    assert.equal(receiver.requests.length, index + 1, "nothing is sent a millisecond before");
    await world.advance(SECOND);
    assert.equal(receiver.requests.length, index + 2);
    const started = (await shown(parts, id)).attempts[index + 1];
    const lateMs = (started?.startedAt ?? NaN) - next.dueAt;
    assert.ok(lateMs >= 0 && lateMs <= SECOND, `${lateMs} ms late`);
  }

  await world.jump(24 * HOUR);
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
    const { world, receiver } = parts;
    const { clock, daemon } = world;
    receiver.answerNext(...Array.from({ length: 5 }, () => FAILED));
    const [id] = await send(parts, 5);
    const failedAt = clock.monotonic();
    const [failed] = (await shown(parts, id)).attempts;
    await world.advance(20 * SECOND);

    clock.step(byMs);
    await world.advance(SECOND);

    assert.equal(receiver.requests.length, 5, "there is no burst");
    const { attempts } = await shown(parts, id);
    assert.equal(attempts[1]?.dueAt, (failed?.endedAt ?? NaN) + MINUTE + byMs);
    await send(parts);
    assert.equal(receiver.requests.length, 6, "first attempts are not held");
    await world.advance(failedAt + MINUTE - 1 - clock.monotonic());
    assert.equal(receiver.requests.length, 6, "it is not early");
    await world.advance(SECOND);
    assert.equal(receiver.requests.length, 11, "it is not late");
    await world.jump(2 * HOUR);
    assert.equal(receiver.requests.length, 11);
    assert.match(daemon.logLines.join(""), /the machine's clock was set/);
  });
}

test("a clock set back by an hour does not delay the next run of a failed task", async (t) => {
  const toml = `[types.fails]\ncommand = ["sh", "-c", "exit 1"]\nretries = 1\n`;
  const { world } = await start(t, toml);
  const { clock, daemon } = world;
  const startAt = new Date(clock.now() + MINUTE).toISOString();
  const { tasks } = await daemon.post([{ type: "fails" }, { type: "fails", start_at: startAt }]);
  const named = tasks[1];
  await daemon.daemon.idle();
  assert.equal((await daemon.get(tasks[0]?.id ?? "")).state, "queued");

  clock.step(-HOUR);
  await world.advance(SECOND);
  await world.advance(2 * MINUTE);

  // start_at follows the wall clock.
  assert.equal((await daemon.get(named?.id ?? "")).runs, 0);
  const { state, runs } = await daemon.get(tasks[0]?.id ?? "");
  assert.deepEqual([state, runs], ["failed", 2]);
});

test("after a suspend of an hour each due retry is sent once, and the next wait starts then", async (t) => {
  const parts = await start(t);
  const { world, receiver } = parts;
  receiver.answer(FAILED);
  const ids = await send(parts, 20);

  await world.jump(HOUR);

  assert.deepEqual(attemptsOf(receiver).slice(20), Array(20).fill("2"));
  for (const id of ids) {
    const { attempts } = await shown(parts, id);
    assert.equal(attempts.length, 3);
    assert.equal(attempts[2]?.dueAt, (attempts[1]?.endedAt ?? NaN) + 5 * MINUTE);
  }
  await world.advance(MINUTE);
  assert.equal(receiver.requests.length, 40);
});

test("after a stop of a day each due retry is sent once", async (t) => {
  const parts = await start(t);
  const { world, receiver } = parts;
  receiver.answerNext(...Array.from({ length: 20 }, () => FAILED));
  const ids = await send(parts, 20);

  await world.restart(() => world.clock.advance(24 * HOUR));
  await world.daemon.daemon.idle();
  await world.jump(HOUR);

  assert.deepEqual(attemptsOf(receiver).slice(20), Array(20).fill("2"));
  const sent = receiver.requests.slice(20).map(({ headers }) => headers["webhook-id"]);
  assert.deepEqual(new Set(sent), new Set(ids.map((id) => `${id}-postback`)));
});

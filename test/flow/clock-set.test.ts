import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Envelope } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { ask } from "../http/answer.ts";
import { cookieLine, FROM_PAGE, pagePost, SESSION, signedIn } from "../http/session-requests.ts";
import type { ClaimedTask } from "../http/worker-requests.ts";
import { DAY, HOUR, MINUTE, NOW, PRINT, SECOND, World, YEAR } from "./world.ts";

const RETENTION = 30 * DAY;
const TOML = `[types.echo]\nrunner = "echo"\n${PRINT}`;

async function post({ daemon }: World, task: object, key?: string): Promise<Response> {
  const headers = {
    "content-type": "application/json",
    ...(key === undefined ? {} : { "idempotency-key": key }),
  };
  const body = JSON.stringify([{ type: "echo", input: "kept", ...task }]);
  return daemon.call("/v1/tasks/task_post", { method: "POST", headers, body });
}

async function idOf(response: Response): Promise<string> {
  const text = await response.text();
  return /"id":"([0-9a-f-]{36})"/.exec(text)?.[1] ?? assert.fail(text);
}

async function codeOf({ daemon }: World, id: string): Promise<number> {
  const response = await daemon.call(`/v1/tasks/task_get/${id}?collect=false`);
  const { status_code: code, tasks } = (await response.json()) as Partial<Envelope>;
  return tasks?.[0]?.status_code ?? code ?? NaN;
}

async function isSignedIn({ daemon }: World, secret: string): Promise<boolean> {
  const headers = [...FROM_PAGE, cookieLine(daemon.url, secret)];
  const { response } = await ask(daemon.url, { method: "GET", target: SESSION, headers });
  return !/"session":null/.test(response.body.toString());
}

/** The tasks, session and lease that exist when the clock is set. */
interface Kept {
  readonly finished: string;
  readonly cancelled: string;
  readonly refused: string;
  /** Its first attempt failed; the next one is due a minute later. */
  readonly retried: string;
  readonly replayed: string;
  readonly session: string;
  readonly lease: ClaimedTask;
  /** Of the webhook. */
  readonly receiver: Receiver;
}

async function fill(t: TestContext, world: World): Promise<Kept> {
  const { daemon } = world;
  const receiver = await startReceiver(t);
  const finished = await idOf(await post(world, {}));
  const refused = await idOf(await post(world, { typo: 1 }));
  const cancelled = await idOf(await post(world, { type: "print" }));
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const replayed = await idOf(await post(world, {}, "once"));
  receiver.answerNext({ kind: "status", status: 500 });
  const retried = await idOf(await post(world, { postback_url: receiver.url() }));
  await post(world, { type: "print" });
  const lease = await (await world.worker()).claimOne();
  await daemon.daemon.idle();
  const { login, key } = daemon.account;
  const { secret } = await signedIn(daemon.url, pagePost(SESSION, { login, key }));
  assert.equal(receiver.requests.length, 1);
  return { finished, cancelled, refused, retried, replayed, session: secret, lease, receiver };
}

/** Checks that everything ends at its time after the clock was set. */
async function assertKept(world: World, kept: Kept): Promise<void> {
  const { finished, cancelled, refused, retried, receiver } = kept;
  const worker = await world.worker();
  assert.equal(await isSignedIn(world, kept.session), true);
  assert.equal(await worker.heartbeat(kept.lease), "ok");

  // The retry comes a minute after the failure, and neither sooner nor again.
  for (let waited = 0; waited < 40; waited += 20) {
    await world.jump(20 * SECOND);
    assert.equal(await worker.heartbeat(kept.lease), "ok");
  }
  assert.equal(receiver.requests.length, 1, "a retry came too soon");
  await world.jump(25 * SECOND);
  assert.equal(receiver.requests.length, 2, "no retry came");
  assert.equal(await worker.complete(kept.lease), "ok");
  await world.jump(HOUR);
  assert.equal(receiver.requests.length, 2);
  assert.equal(await isSignedIn(world, kept.session), false, "idle for an hour");

  const again = await post(world, {}, "once");
  assert.equal(again.headers.get("idempotent-replayed"), "true");
  assert.equal(await idOf(again), kept.replayed);
  await world.jump(DAY);
  assert.equal((await post(world, {}, "once")).headers.get("idempotent-replayed"), null);

  const codes = async () =>
    Promise.all([finished, cancelled, refused, retried].map((id) => codeOf(world, id)));
  await world.jump(RETENTION - DAY - 3 * HOUR);
  assert.deepEqual(await codes(), [20000, 40901, 40506, 20000]);
  await world.jump(4 * HOUR);
  await world.advance(MINUTE);
  await world.jump(0);
  // The id of the task has the time of the wrong clock, which decides between the two codes.
  for (const code of await codes()) assert.ok(code === 40403 || code === 40401, String(code));
}

for (const [how, byMs] of [
  ["five years ahead", 5 * YEAR],
  ["five years back", -5 * YEAR],
] as const) {
  test(`a clock set ${how}, while the daemon runs and while it is stopped, moves no erasure, session, lease or retry`, async (t) => {
    const world = await World.start(t, { toml: TOML });
    const kept = await fill(t, world);

    world.clock.step(byMs);
    await world.jump(0);
    await world.restart(() => world.clock.step(byMs));

    await assertKept(world, kept);
  });
}

test("a clock that is corrected after a boot in 1970 moves no erasure, session, lease or retry", async (t) => {
  const world = await World.start(t, { now: 0, toml: TOML });
  const kept = await fill(t, world);

  world.clock.step(NOW);

  await assertKept(world, kept);
});

test("a clock that is repeatedly wrong for a minute moves nothing", async (t) => {
  const world = await World.start(t, { toml: TOML });
  const kept = await fill(t, world);

  for (const byMs of [5 * YEAR, -5 * YEAR]) {
    world.clock.step(byMs);
    await world.jump(0);
    await world.restart();
    world.clock.step(-byMs);
    await world.jump(0);
  }

  await assertKept(world, kept);
});

// The time for which the machine was off is unknown: the clock belongs to another boot.
for (const [how, now] of [
  ["five years ahead", NOW + 5 * YEAR],
  ["in 1970", 0],
] as const) {
  test(`a reboot with a clock ${how} erases nothing early and ends sign-ins`, async (t) => {
    const world = await World.start(t, { toml: TOML });
    const kept = await fill(t, world);
    const { requests } = kept.receiver;

    await world.restart(undefined, { clock: createFakeClock({ now }) });
    await world.daemon.daemon.idle();

    assert.equal(await isSignedIn(world, kept.session), false);
    await world.jump(MINUTE + SECOND);
    assert.equal(requests.length, 2, "the webhook is sent, once");
    await world.jump(HOUR);
    assert.equal(requests.length, 2);
    assert.equal(
      (await post(world, {}, "once")).headers.get("idempotent-replayed"),
      "true",
      "nothing proves that a day has passed",
    );
    const ids = [kept.finished, kept.cancelled, kept.refused, kept.retried];
    const codes = () => Promise.all(ids.map((id) => codeOf(world, id)));
    await world.jump(RETENTION - 2 * HOUR);
    assert.deepEqual(await codes(), [20000, 40901, 40506, 20000]);
    await world.jump(3 * HOUR);
    for (const code of await codes()) assert.match(String(code), /^4040[13]$/);
  });
}

test("start_at follows a clock that is set", async (t) => {
  const world = await World.start(t, { toml: TOML });
  const startAt = new Date(NOW + HOUR).toISOString();
  const early = await idOf(await post(world, { start_at: startAt }));
  const delayed = await idOf(await post(world, { start_at: "2031-01-31T09:00:00Z" }));

  world.clock.step(-2 * HOUR);
  await world.jump(HOUR + SECOND);
  assert.equal(await codeOf(world, early), 40602);
  world.clock.step(2 * HOUR);
  await world.jump(SECOND);

  assert.equal(await codeOf(world, early), 20000);
  assert.equal(await codeOf(world, delayed), 40602);
});

test("a task with a scheduled webhook outlives its retention until the webhook has ended", async (t) => {
  const toml = `retention_days = 1\n${TOML}[webhooks]\nretry_after = ["25h"]\nallow = ["127.0.0.1"]\n`;
  const world = await World.start(t, { toml });
  const receiver = await startReceiver(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const id = await idOf(await post(world, { postback_url: receiver.url() }));
  const other = await idOf(await post(world, {}));
  await world.daemon.daemon.idle();

  await world.jump(DAY + 2 * MINUTE);
  assert.equal(await codeOf(world, other), 40403);
  assert.equal(await codeOf(world, id), 20000);
  await world.jump(HOUR);

  assert.equal(receiver.requests.length, 2);
  await world.jump(HOUR);
  assert.equal(await codeOf(world, id), 40403);
});

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { Envelope, TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { ask } from "../http/answer.ts";
import { cookieLine, FROM_PAGE, pagePost, SESSION, signedIn } from "../http/session-requests.ts";
import type { ClaimedTask } from "../http/worker-requests.ts";
import { startWithWorker, type WorkerClient } from "./worker-client.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
const RETENTION = 30 * DAY;
const TOML = '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';

interface World {
  readonly clock: FakeClock;
  readonly receiver: Receiver;
  readonly daemon: TestDaemon;
  readonly worker: WorkerClient;
}

async function startWorld(t: TestContext, { now = NOW, toml = TOML } = {}): Promise<World> {
  const clock = createFakeClock({ now });
  const receiver = await startReceiver(t);
  return { clock, receiver, ...(await startWithWorker(t, { clock, toml })) };
}

/** Stops the daemon, and starts one on its file that has this clock. */
async function restart(t: TestContext, world: World, clock = world.clock): Promise<World> {
  const { daemon, worker } = world;
  const { folder, account } = daemon;
  await daemon.daemon.stop();
  const again = await startWithWorker(t, { clock, toml: TOML, folder, account, worker });
  return { ...world, ...again, clock };
}

/** Lets time pass, and waits for the end of due work. */
async function pass({ clock, daemon }: World, ms: number): Promise<void> {
  clock.jump(ms);
  await daemon.daemon.idle();
  // Ticks find due work each second, and erase each minute.
  clock.advance(0);
  await daemon.daemon.idle();
}

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
}

async function fill(world: World): Promise<Kept> {
  const { daemon, receiver, worker } = world;
  const finished = await idOf(await post(world, {}));
  const refused = await idOf(await post(world, { typo: 1 }));
  const cancelled = await idOf(await post(world, { type: "print" }));
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const replayed = await idOf(await post(world, {}, "once"));
  receiver.answerNext({ kind: "status", status: 500 });
  const retried = await idOf(await post(world, { postback_url: receiver.url() }));
  await post(world, { type: "print" });
  const lease = await worker.claimOne();
  await daemon.daemon.idle();
  const { login, key } = daemon.account;
  const { secret } = await signedIn(daemon.url, pagePost(SESSION, { login, key }));
  assert.equal(receiver.requests.length, 1);
  return { finished, cancelled, refused, retried, replayed, session: secret, lease };
}

/** Checks that everything ends at its time after the clock was set. */
async function assertKept(world: World, kept: Kept, { endsSessions = false } = {}): Promise<void> {
  const { receiver, worker, clock } = world;
  const { finished, cancelled, refused, retried } = kept;
  assert.equal(await isSignedIn(world, kept.session), !endsSessions);
  assert.equal(await worker.heartbeat(kept.lease), "ok");

  // The retry comes a minute after the failure, and neither sooner nor again.
  const beat = (): Promise<string> => worker.heartbeat(kept.lease);
  for (let waited = 0; waited < 40; waited += 10) {
    await pass(world, 10 * SECOND);
    assert.equal(await beat(), "ok");
  }
  assert.equal(receiver.requests.length, 1, "a retry came too soon");
  await pass(world, 25 * SECOND);
  assert.equal(receiver.requests.length, 2, "no retry came");
  assert.equal(await worker.complete(kept.lease), "ok");
  await pass(world, HOUR);
  assert.equal(receiver.requests.length, 2);
  assert.equal(await isSignedIn(world, kept.session), false, "idle for an hour");

  const again = await post(world, {}, "once");
  assert.equal(again.headers.get("idempotent-replayed"), "true");
  assert.equal(await idOf(again), kept.replayed);
  await pass(world, DAY);
  assert.equal((await post(world, {}, "once")).headers.get("idempotent-replayed"), null);

  const codes = async () =>
    Promise.all([finished, cancelled, refused, retried].map((id) => codeOf(world, id)));
  await pass(world, RETENTION - DAY - 3 * HOUR);
  assert.deepEqual(await codes(), [20000, 40901, 40506, 20000]);
  await pass(world, 4 * HOUR);
  clock.advance(MINUTE);
  await pass(world, 0);
  // The id of the task has the time of the wrong clock, which decides between the two codes.
  for (const code of await codes()) assert.ok(code === 40403 || code === 40401, String(code));
}

const STEPS = { "five years ahead": 5 * YEAR, "five years back": -5 * YEAR };

for (const [how, byMs] of Object.entries(STEPS)) {
  test(`a clock set ${how} while the daemon runs moves no erasure, session, lease or retry`, async (t) => {
    const world = await startWorld(t);
    const kept = await fill(world);

    world.clock.step(byMs);

    await assertKept(world, kept);
  });

  test(`a clock set ${how} between a stop and a start moves no erasure, session, lease or retry`, async (t) => {
    const world = await startWorld(t);
    const kept = await fill(world);

    await world.daemon.daemon.stop();
    world.clock.step(byMs);

    await assertKept(await restart(t, world), kept);
  });
}

test("a clock that is corrected after a boot in 1970 moves no erasure, session, lease or retry", async (t) => {
  const world = await startWorld(t, { now: 0 });
  const kept = await fill(world);

  world.clock.step(NOW);

  await assertKept(world, kept);
});

test("a clock that is repeatedly wrong for a minute moves nothing", async (t) => {
  let world = await startWorld(t);
  const kept = await fill(world);

  for (const byMs of Object.values(STEPS)) {
    world.clock.step(byMs);
    await pass(world, 0);
    world = await restart(t, world);
    world.clock.step(-byMs);
    await pass(world, 0);
  }

  await assertKept(world, kept);
});

// The time for which the machine was off is unknown: the clock belongs to another boot.
for (const [how, byMs] of Object.entries({ ...STEPS, "in 1970": -NOW })) {
  test(`a reboot with a clock ${how} erases nothing early and ends sign-ins`, async (t) => {
    const world = await startWorld(t);
    const kept = await fill(world);

    const clock = createFakeClock({ now: world.clock.now() + byMs });
    const again = await restart(t, world, clock);
    await again.daemon.daemon.idle();

    assert.equal(await isSignedIn(again, kept.session), false);
    await pass(again, MINUTE + SECOND);
    assert.equal(world.receiver.requests.length, 2, "the webhook is sent, once");
    await pass(again, HOUR);
    assert.equal(world.receiver.requests.length, 2);
    assert.equal(
      (await post(again, {}, "once")).headers.get("idempotent-replayed"),
      "true",
      "nothing proves that a day has passed",
    );
    const ids = [kept.finished, kept.cancelled, kept.refused, kept.retried];
    await pass(again, RETENTION - 2 * HOUR);
    for (const id of ids) assert.notEqual(await codeOf(again, id), 40401);
    for (const id of ids) assert.notEqual(await codeOf(again, id), 40403);
    await pass(again, 3 * HOUR);
    for (const id of ids) assert.match(String(await codeOf(again, id)), /^4040[13]$/);
  });
}

test("start_at follows a clock that is set", async (t) => {
  const world = await startWorld(t);
  const startAt = new Date(NOW + HOUR).toISOString();
  const [early, late] = [await idOf(await post(world, { start_at: startAt })), "2031-01-31"];
  const delayed = await idOf(await post(world, { start_at: `${late}T09:00:00Z` }));

  world.clock.step(-2 * HOUR);
  await pass(world, HOUR + SECOND);
  assert.equal(await codeOf(world, early), 40602);
  world.clock.step(2 * HOUR);
  await pass(world, SECOND);

  assert.equal(await codeOf(world, early), 20000);
  assert.equal(await codeOf(world, delayed), 40602);
});

test("a task with a scheduled webhook outlives its retention until the webhook has ended", async (t) => {
  const toml = `retention_days = 1\n${TOML}[webhooks]\nretry_after = ["25h"]\nallow = ["127.0.0.1"]\n`;
  const world = await startWorld(t, { toml });
  const { receiver } = world;
  receiver.answerNext({ kind: "status", status: 500 });
  const id = await idOf(await post(world, { postback_url: receiver.url() }));
  const other = await idOf(await post(world, {}));
  await world.daemon.daemon.idle();

  await pass(world, DAY + 2 * MINUTE);
  assert.equal(await codeOf(world, other), 40403);
  assert.equal(await codeOf(world, id), 20000);
  await pass(world, HOUR);

  assert.equal(receiver.requests.length, 2);
  await pass(world, HOUR);
  assert.equal(await codeOf(world, id), 40403);
});

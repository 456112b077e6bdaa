import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { openRaw, toBytes, type RawRequest } from "../helpers/raw-http.ts";
import { retainedUntil } from "../helpers/store.ts";
import { NOW, startAt9 } from "./account.ts";
import { ask, askOn, bearer, taskGet, TASKS_READY } from "./answer.ts";
import { atStore } from "./session-requests.ts";
import { openHeldTasks, request, toPlainAnswer, type PlainAnswer } from "./task-requests.ts";

interface Setup {
  readonly clock: FakeClock;
  readonly daemon: TestDaemon;
  /** A task that starts in an hour. */
  readonly id: string;
}

async function start(t: TestContext): Promise<Setup> {
  const { clock, daemon } = await startAt9(t);
  const { tasks } = await daemon.post({ input: 1, start_at: "2030-01-31T10:00:00Z" });
  return { clock, daemon, id: tasks[0]?.id ?? "" };
}

function waitFor(id: string, ...prefer: readonly string[]): RawRequest {
  return { target: taskGet(id), headers: prefer.map((each) => `Prefer: ${each}`) };
}

/** The same with the account's key, for a connection that is the test's own. */
function rawWaitFor(daemon: TestDaemon, id: string, prefer: string): RawRequest {
  return { target: taskGet(id), headers: [bearer(daemon), `Prefer: ${prefer}`] };
}

/** Sends a request and resolves when the daemon waits. */
async function startWaiting(
  { clock, daemon }: Pick<Setup, "clock" | "daemon">,
  asked: RawRequest,
): Promise<{ answer: Promise<PlainAnswer>; isAnswered: () => boolean }> {
  // The first use of a key starts a timer of its own.
  await request(daemon, { target: TASKS_READY });
  const timers = clock.pending().length;
  let isAnswered = false;
  const answer = request(daemon, asked).finally(() => {
    isAnswered = true;
  });
  await clock.whenPending(timers + 1);
  return { answer, isAnswered: () => isAnswered };
}

/** Advances an hour, so that the delayed task runs. */
async function runOut({ clock, daemon }: Pick<Setup, "clock" | "daemon">): Promise<void> {
  clock.jump(3_600_000);
  await daemon.daemon.idle();
  clock.advance(1000);
  await daemon.daemon.idle();
}

/** Resolves when earlier responses were sent. */
async function settle(daemon: TestDaemon): Promise<void> {
  for (let i = 0; i < 3; i++) await ask(daemon.url, {});
}

test("a wait returns the ended task when the task ends", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const { tasks } = await daemon.post({ type: "hold" });
  const id = tasks[0]?.id ?? "";
  const process = await held.next();
  const waiting = await startWaiting({ clock, daemon }, waitFor(id, "wait=30"));
  await settle(daemon);
  assert.equal(waiting.isAnswered(), false);
  process.socket.end();
  const answer = await waiting.answer;

  assert.match(answer.text, /"status_code":20000,"status_message":"Ok.","state":"completed"/);
  assert.equal(answer.header("preference-applied"), "wait=30");
  assert.notEqual(answer.header("etag"), null);
  assert.equal(clock.now(), NOW);
  assert.equal((await daemon.ready()).tasks_count, 0);
  assert.ok(!clock.pending().includes(30_000));
});

test("a wait that times out returns the task as it is and collects nothing", async (t) => {
  const { clock, daemon, id } = await start(t);
  for (const seconds of [1, 30, 60]) {
    const asked = waitFor(id, `wait=${seconds}`);
    const waiting = await startWaiting({ clock, daemon }, asked);
    clock.advance(seconds * 1000 - 1);
    await settle(daemon);
    assert.equal(waiting.isAnswered(), false, String(seconds));
    clock.advance(1);
    const { status, text, header } = await waiting.answer;
    assert.equal(status, 200);
    assert.match(text, /"tasks_error":0,.*"status_code":40602,.*"state":"queued"/);
    assert.equal(header("preference-applied"), `wait=${seconds}`);
    assert.equal(header("etag"), null);
  }
  await runOut({ clock, daemon });
  assert.equal((await daemon.ready()).tasks_count, 1);
});

test("wait=0 returns immediately, and a request without a wait has no Preference-Applied", async (t) => {
  const { daemon, id } = await start(t);
  const zero = await request(daemon, waitFor(id, "wait=0"));
  assert.equal(zero.header("preference-applied"), "wait=0");
  assert.match(zero.text, /"status_code":40602/);
  const plain = await request(daemon, waitFor(id));
  assert.equal(plain.header("preference-applied"), null);
});

test("an invalid wait is 40000, also for an ended task, and collects nothing", async (t) => {
  const { clock, daemon, id } = await start(t);
  const wrong = [
    ["wait=61", "wait=100", "wait=-1", "wait=+1", "wait=1.5", "wait=1e1", "wait=0x1", "wait=ten"],
    ["wait", "wait=", 'wait=""', "wait=1=2", "wait=1 2", "wait=9999999999999999999", "WAIT=61"],
    ['wait="61"', "wait = 61", "respond-async, wait=61", "wait=61, wait=1", 'wait="1', "wait=1s"],
  ].flat();
  const connection = await openRaw(t, daemon.url);
  const askAll = async () => {
    for (const prefer of wrong) {
      const { code, body } = await askOn(connection, rawWaitFor(daemon, id, prefer));
      assert.equal(code, 40000, prefer);
      assert.match(body.errors?.[0]?.detail ?? "", /whole seconds from 0 to 60/);
    }
  };
  await askAll();
  await runOut({ clock, daemon });
  await askAll();
  assert.equal((await daemon.ready()).tasks_count, 1);
});

test("other preferences are ignored on any line and within quotes", async (t) => {
  const { clock, daemon, id } = await start(t);
  const none = [
    ["respond-async", "return=minimal", "handling=lenient; wait=61", "waiting=61", "x-wait=61"],
    ['foo="a, wait=61"', 'foo="wait=61;wait=61"', "", ",", ";", "=", "==,;", "wait-=61"],
  ].flat();
  for (const prefer of none) {
    const answer = await request(daemon, waitFor(id, prefer));
    assert.equal(answer.status, 200, prefer);
    assert.equal(answer.header("preference-applied"), null, prefer);
  }
  const seven: readonly (readonly string[])[] = [
    ...[["wait=7"], ["WAIT=7"], ['wait="7"'], ["wait = 7"], ["wait=007"], ["wait=7; foo=bar"]],
    ...[["respond-async, wait=7"], ["respond-async", "wait=7"], ["wait=7", "wait=9"]],
    ...[["wait=7, wait=61"], ['foo="a, wait=61", wait=7'], ["return=minimal;x", "foo", "wait=7"]],
  ];
  for (const prefer of seven) {
    const waiting = await startWaiting({ clock, daemon }, waitFor(id, ...prefer));
    assert.ok(clock.pending().includes(7000), prefer.join("|"));
    clock.advance(7000);
    assert.equal((await waiting.answer).header("preference-applied"), "wait=7", prefer.join("|"));
  }
});

test("a client that disconnects ends its wait and collects nothing", async (t) => {
  const { clock, daemon, id } = await start(t);
  for (const leave of ["reset", "end"] as const) {
    const connection = await openRaw(t, daemon.url);
    const timers = clock.pending().length;
    connection.send(toBytes(rawWaitFor(daemon, id, "wait=60")));
    await clock.whenPending(timers + 1);
    connection[leave]();
    while (clock.pending().length > timers) await settle(daemon);
  }
  assert.equal(clock.now(), NOW);
});

test("consecutive waits on one connection leave no timer and no listener", async (t) => {
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(warning.message);
  process.on("warning", note);
  t.after(() => process.off("warning", note));
  const { clock, daemon, id } = await start(t);
  const connection = await openRaw(t, daemon.url);
  const timers = clock.pending().length;
  for (let i = 0; i < 30; i++) {
    connection.send(toBytes(rawWaitFor(daemon, id, "wait=1")));
    await clock.whenPending(timers + 1);
    clock.advance(1000);
    assert.equal((await connection.next()).status, 200);
    assert.equal(clock.pending().length, timers);
  }
  await settle(daemon);
  assert.deepEqual(warnings, []);
});

test("a stop ends all waits immediately", async (t) => {
  const { clock, daemon, id } = await start(t);
  const waiting = [];
  for (let i = 0; i < 5; i++) {
    waiting.push(await startWaiting({ clock, daemon }, waitFor(id, "wait=60")));
  }
  const stopped = daemon.daemon.stop();
  for (const { answer } of waiting) assert.match((await answer).text, /"status_code":40602/);
  await stopped;
  assert.equal(clock.now(), NOW);
});

test("HEAD waits as GET does, without a body, and collects nothing", async (t) => {
  const { clock, daemon, id } = await start(t);
  const asked = { ...rawWaitFor(daemon, id, "wait=60"), method: "HEAD" };
  const connection = await openRaw(t, daemon.url);
  const timers = clock.pending().length;
  connection.send(toBytes(asked));
  await clock.whenPending(timers + 1);
  // A cancelled task is never ready, so this task has to run.
  clock.step(3_600_000);
  clock.advance(1000);
  const { status, header } = toPlainAnswer(await connection.next({ to: "HEAD" }));
  assert.equal(status, 200);
  assert.equal(header("preference-applied"), "wait=60");
  assert.notEqual(header("etag"), null);
  assert.equal((await daemon.ready()).tasks_count, 1);
  assert.equal((await askOn(connection, rawWaitFor(daemon, id, "wait=60"))).code, 20000);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

test("five hundred waits for one task end with it", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const { tasks } = await daemon.post([{ type: "hold" }, { type: "hold" }]);
  const [id = "", other = ""] = tasks.map((task) => task.id);
  const process = await held.next();
  const bystander = await startWaiting({ clock, daemon }, waitFor(other, "wait=60"));
  const timers = clock.pending().length;
  const asked = waitFor(id, "wait=60");
  const answers = Array.from({ length: 500 }, () => request(daemon, asked));
  await clock.whenPending(timers + 500);
  process.socket.end();

  const texts = (await Promise.all(answers)).map(({ text }) => text);
  assert.equal(new Set(texts).size, 1);
  assert.match(texts[0] ?? "", /"state":"completed"/);
  assert.equal(bystander.isAnswered(), false);
  // The next task adds one timer.
  assert.ok(clock.pending().length <= timers + 1);
  clock.advance(60_000);
  await bystander.answer;
});

test("a wait for an ended, unknown or expired task returns immediately", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const toml = `${held.toml}[types.echo]\nrunner = "echo"\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  const account = await createTestAccount(daemon.file, "other");
  const later = { type: "echo", start_at: "2030-01-31T10:00:00Z" };
  const posted = [{ type: "echo" }, { type: "fail" }, { type: "echo", typo: 1 }, later, later];
  const ids = (await daemon.post(posted)).tasks.map(({ id }) => id);
  await daemon.daemon.idle();
  const [, , , cancelled = "", queued = ""] = ids;
  await daemon.call(`/v1/tasks/task_cancel/${cancelled}`, { method: "POST" });
  const wait = async (id: string, who = daemon): Promise<number | null> =>
    (await request(who, waitFor(id, "wait=60"))).code;

  for (const id of ids.slice(0, 4)) assert.equal(await wait(id), 20000);
  const unknown = queued.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
  for (const id of [unknown, "x", queued.toUpperCase()]) assert.equal(await wait(id), 40401, id);
  assert.equal(await wait(queued, { ...daemon, account }), 40401);
  assert.equal(await wait("01000000-0000-7000-8000-000000000000"), 40403);
  assert.equal(clock.now(), NOW);
});

test("a failed run with a retry left does not end a wait", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const [task] = (await daemon.post({ type: "retried" })).tasks;
  await daemon.daemon.idle();
  const asked = waitFor(task?.id ?? "", "wait=60");
  const waiting = await startWaiting({ clock, daemon }, asked);
  for (let second = 1; second <= 7; second++) {
    assert.equal(waiting.isAnswered(), false);
    clock.advance(1000);
    await daemon.daemon.idle();
    await settle(daemon);
  }
  assert.match((await waiting.answer).text, /"state":"failed".*"runs":4/);
});

test("a wait is 40102 within a second after another process disables its account", async (t) => {
  const setup = await start(t);
  const { clock, daemon, id } = setup;
  const other = await createTestAccount(daemon.file, "other");
  const waiting = await startWaiting(setup, waitFor(id, "wait=60"));

  await atStore(daemon.file, async (store) => {
    await store.setAccountDisabled({ login: other.login, disabledAt: NOW });
  });
  clock.advance(1000);
  await daemon.daemon.idle();
  await settle(daemon);
  assert.equal(waiting.isAnswered(), false);

  await atStore(daemon.file, async (store) => {
    await store.setAccountDisabled({ login: daemon.account.login, disabledAt: NOW });
  });
  clock.advance(1000);
  assert.equal((await waiting.answer).code, 40102);
});

test("a wait ends within a second after another process cancels or erases its task", async (t) => {
  const { clock, daemon, id } = await start(t);
  const { tasks } = await daemon.post({ start_at: "2030-01-31T10:00:00Z" });
  const other = tasks[0]?.id ?? "";
  const cancelled = await startWaiting({ clock, daemon }, waitFor(id, "wait=60"));
  const erased = await startWaiting({ clock, daemon }, waitFor(other, "wait=60"));
  clock.advance(1000);
  await daemon.daemon.idle();
  await settle(daemon);
  assert.deepEqual([cancelled.isAnswered(), erased.isAnswered()], [false, false]);

  await atStore(daemon.file, async (store) => {
    const end = { cancelledAt: NOW, ...retainedUntil(NOW + 86_400_000) };
    await store.cancelTasks({ accountId: 1, ids: [id, other], states: ["queued"], ...end });
    await store.eraseTask({ id: other, hasWebhooks: false });
  });
  clock.advance(1000);

  assert.match((await cancelled.answer).text, /"state":"cancelled"/);
  assert.equal((await erased.answer).code, 40401);
});

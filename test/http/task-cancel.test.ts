import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { NOW, postOne, startAt9 } from "./account.ts";
import { taskGet, unlessBusy } from "./answer.ts";
import { cancelPath, openHeldTasks, request, type PlainAnswer } from "./task-requests.ts";

const LATER = "2030-01-31T10:00:00.000Z";

async function cancel(daemon: TestDaemon, id: string): Promise<PlainAnswer> {
  return request(daemon, { method: "POST", target: cancelPath(id) });
}

/** The text of task_get without collecting. */
async function shown(daemon: TestDaemon, id: string): Promise<string> {
  const { status, text } = await request(daemon, { target: taskGet(id, "?collect=false") });
  assert.equal(status, 200);
  return text;
}

test("a cancel returns before a program that ignores SIGTERM is killed after 5 s", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t, "ignore-term");
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const id = await postOne(daemon, { type: "hold" });
  const process = await held.next();
  await process.line();
  const { text } = await cancel(daemon, id);
  assert.match(text, /"state":"cancelled"/);
  assert.equal(await process.line(), "SIGTERM");
  assert.equal(process.socket.readyState, "open");

  clock.advance(5000);
  await process.ended;
  assert.equal(await shown(daemon, id), text);
});

test("a program that exits with 0 after SIGTERM changes nothing", async (t) => {
  const held = await openHeldTasks(t, "exit-0");
  const daemon = await startTestDaemon(t, { toml: held.toml });
  const id = await postOne(daemon, { type: "hold" });
  const process = await held.next();
  await process.line();
  const { text } = await cancel(daemon, id);
  await process.ended;
  await daemon.daemon.idle();

  assert.equal(await shown(daemon, id), text);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

test("a cancelled task shows its end, its expiry and its data, and a second cancel returns the same", async (t) => {
  const { clock, daemon } = await startAt9(t);
  const posted = { tag: "t", start_at: LATER, priority: 3, input: { a: [1, "é"] } };
  const id = await postOne(daemon, posted);
  clock.advance(1500);
  const answer = await cancel(daemon, id);

  const { tasks, ...envelope } = JSON.parse(answer.text);
  const counts = { tasks_count: 1, tasks_error: 1 };
  assert.deepEqual(envelope, { status_code: 20000, status_message: "Ok.", ...counts });
  assert.deepEqual(tasks, [
    {
      ...{ id, status_code: 40901, status_message: "Task Cancelled.", state: "cancelled" },
      ...{ type: "echo", created_at: "2030-01-31T09:00:00.000Z", started_at: null },
      completed_at: "2030-01-31T09:00:01.500Z",
      expires_at: "2030-03-02T09:00:01.500Z",
      ...{ runs: 0, progress: null, data: posted, result: null, error: null },
    },
  ]);
  clock.advance(60_000);
  for (let i = 0; i < 3; i++) {
    const again = await cancel(daemon, id);
    assert.deepEqual([again.status, again.text], [200, answer.text]);
    assert.equal(await shown(daemon, id), answer.text);
  }
});

clusterTest(
  "a cancelled task sends no webhook, also after a restart, and is never ready",
  async (t) => {
    const receiver = await startReceiver(t);
    const held = await openHeldTasks(t);
    const first = await startTestDaemon(t, { toml: held.toml });
    const urls = (name: string) => ({
      postback_url: receiver.url(`/${name}/postback`),
      pingback_url: receiver.url(`/${name}/pingback`),
    });
    const ids = [
      await postOne(first, { type: "hold", ...urls("running") }),
      await postOne(first, { type: "hold", ...urls("queued") }),
      await postOne(first, { type: "hold", start_at: farStart(), ...urls("delayed") }),
    ];
    const process = await held.next();
    for (const id of ids) assert.equal((await cancel(first, id)).status, 200);
    await process.ended;
    await first.daemon.idle();
    const texts = await Promise.all(ids.map((id) => shown(first, id)));
    await first.daemon.stop();

    const { folder, account } = first;
    const second = await startTestDaemon(t, { folder, account, toml: held.toml });
    await postOne(second, { type: "fail", ...urls("failed") });
    await second.daemon.idle();
    const paths = receiver.requests.map(({ url }) => url).toSorted();
    assert.deepEqual(paths, ["/failed/pingback", "/failed/postback"]);
    assert.deepEqual(await Promise.all(ids.map((id) => shown(second, id))), texts);
    assert.equal((await second.ready()).tasks_count, 1);
  },
);

clusterTest("a completed, failed or refused task is 40902 and does not change", async (t) => {
  const held = await openHeldTasks(t);
  const toml = `${held.toml}[types.echo]\nrunner = "echo"\n`;
  const daemon = await startTestDaemon(t, { toml });
  const { tasks } = await daemon.post([
    { type: "echo", input: 1 },
    { type: "fail" },
    { type: "echo", typo: 1 },
  ]);
  await daemon.daemon.idle();
  for (const { id } of tasks) {
    const before = await shown(daemon, id);
    for (let i = 0; i < 2; i++) {
      const { status, text } = await cancel(daemon, id);
      const body = '{"status_code":40902,"status_message":"Task Not Cancellable."}';
      assert.deepEqual([status, text], [409, body]);
    }
    assert.equal(await shown(daemon, id), before);
  }
  assert.equal((await daemon.ready()).tasks_count, 2);
  const [id = ""] = tasks.map((task) => task.id);
  await (await daemon.call(taskGet(id))).text();
  assert.equal((await cancel(daemon, id)).code, 40902);
});

clusterTest(
  "a cancel that races with the claim and the end of its task returns the final state",
  async (t) => {
    const receiver = await startReceiver(t);
    const command = JSON.stringify([process.execPath, "-e", "0"]);
    const toml = `[types.echo]\nrunner = "echo"\n[types.short]\ncommand = ${command}\nconcurrency = 2\n`;
    const daemon = await startTestDaemon(t, { toml });
    const outcomes = new Map<string, number>();
    const race = async (type: string) => {
      const task = { type, postback_url: receiver.url("/") };
      const { tasks } = await daemon.post(Array.from({ length: 8 }, () => task));
      for (const { id } of tasks) outcomes.set(id, 0);
      const turns = tasks
        .flatMap(({ id }) => [id, id])
        .map((id) => unlessBusy(() => cancel(daemon, id)));
      for (const { status, text } of await Promise.all(turns)) {
        const { id } = status === 200 ? JSON.parse(text).tasks[0] : { id: null };
        if (id !== null) outcomes.set(id, status);
        else assert.equal(status, 409);
      }
    };
    await Promise.all(Array.from({ length: 24 }, (_, i) => race(i % 8 === 0 ? "short" : "echo")));
    await daemon.daemon.idle();

    const ready = new Set((await daemon.ready("?limit=1000")).tasks.map(({ id }) => id));
    const delivered = receiver.requests.map(({ rawBody }) => JSON.parse(rawBody.toString()));
    const sent = new Set(delivered.map(({ tasks }) => tasks[0].id));
    const states: string[] = [];
    for (const [id, status] of outcomes) {
      const { state } = await daemon.get(id);
      states.push(state);
      assert.equal(state, status === 200 ? "cancelled" : "completed");
      assert.equal(ready.has(id), state === "completed");
      assert.equal(sent.has(id), state === "completed");
    }
    assert.equal(states.length, 192);
    assert.equal(receiver.requests.length, sent.size);
    const { text } = await request(daemon, { target: "/v1/appendix/user_data" });
    const counted = JSON.parse(text);
    assert.equal(counted.tasks.cancelled, states.filter((state) => state === "cancelled").length);
    assert.equal(counted.tasks.completed, ready.size);
  },
);

clusterTest("concurrent cancels of a running task get the same response", async (t) => {
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { toml: held.toml });
  const id = await postOne(daemon, { type: "hold" });
  const process = await held.next();
  const answers = await Promise.all(Array.from({ length: 40 }, () => cancel(daemon, id)));
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.ok(answers.every(({ status }) => status === 200));
  await process.ended;
});

test("a cancelled task is not retried", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const id = await postOne(daemon, { type: "retried" });
  await daemon.daemon.idle();
  assert.deepEqual([(await daemon.get(id)).state, (await daemon.get(id)).runs], ["queued", 1]);
  const { text } = await cancel(daemon, id);
  for (let i = 0; i < 5; i++) {
    clock.advance(60_000);
    await daemon.daemon.idle();
  }
  assert.equal(await shown(daemon, id), text);
  assert.equal((await daemon.get(id)).runs, 1);
});

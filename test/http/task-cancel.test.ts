import assert from "node:assert/strict";
import { test } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { farStart } from "../helpers/far-start.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { JSON_TYPE, taskGet, unlessBusy } from "./answer.ts";
import { cancelPath, openHeldTasks, request, type PlainAnswer } from "./task-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const DAY = 86_400_000;
const LATER = "2030-01-31T10:00:00.000Z";

async function cancel(daemon: TestDaemon, id: string): Promise<PlainAnswer> {
  return request(daemon, { method: "POST", target: cancelPath(id) });
}

async function postOne(daemon: TestDaemon, task: object): Promise<string> {
  const { tasks } = await daemon.post(task);
  assert.equal(tasks[0]?.status_code, 20100);
  return tasks[0].id;
}

/** What task_get answers, character for character, without collecting. */
async function shown(daemon: TestDaemon, id: string): Promise<string> {
  const { status, text } = await request(daemon, { target: taskGet(id, "?collect=false") });
  assert.equal(status, 200);
  return text;
}

test("a queued task that is cancelled never runs, and those behind it do", async (t) => {
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { toml: held.toml });
  await postOne(daemon, { type: "hold" });
  const first = await held.next();
  const id = await postOne(daemon, { type: "hold", priority: 9 });
  const last = await postOne(daemon, { type: "hold" });
  assert.equal((await cancel(daemon, id)).code, 20000);
  first.socket.end();
  (await held.next()).socket.end();
  await daemon.daemon.idle();

  const { state, runs, started_at: startedAt } = JSON.parse(await shown(daemon, id)).tasks[0];
  assert.deepEqual([state, runs, startedAt], ["cancelled", 0, null]);
  assert.equal((await daemon.get(last)).state, "completed");
});

test("a delayed task that is cancelled does not run when its time comes", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const id = await postOne(daemon, { start_at: LATER });
  const { text } = await cancel(daemon, id);
  clock.advance(3_700_000);
  await daemon.daemon.idle();

  assert.equal(await shown(daemon, id), text);
  assert.equal((await daemon.get(id)).runs, 0);
  assert.equal((await daemon.ready()).tasks_count, 0);
});

clusterTest(
  "a running task's program gets SIGTERM and is gone, and the next one takes its place",
  async (t) => {
    const held = await openHeldTasks(t);
    const daemon = await startTestDaemon(t, { toml: held.toml });
    const id = await postOne(daemon, { type: "hold" });
    const process = await held.next();
    const other = await postOne(daemon, { type: "hold" });
    const { text } = await cancel(daemon, id);
    await process.ended;
    (await held.next()).socket.end();
    await daemon.daemon.idle();

    assert.equal(await shown(daemon, id), text);
    assert.equal((await daemon.get(id)).runs, 1);
    assert.equal((await daemon.get(other)).state, "completed");
  },
);

test("the answer does not wait for a program that ignores SIGTERM, which is killed after 5 s", async (t) => {
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

test("a program that ends well although it was told to stop changes nothing any more", async (t) => {
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

test("a cancelled task shows when it ended and until when it is kept, with what was posted, and stays so", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
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
  "a cancelled task sends nothing, not after a restart either, and is never ready",
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

clusterTest(
  "a task that has completed, has failed or was refused is 40902 and stays as it is",
  async (t) => {
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
  },
);

test("an unknown, a malformed and another account's id are answered alike, and nothing is cancelled", async (t) => {
  const daemon = await startTestDaemon(t);
  const account = await createTestAccount(daemon.file, "other");
  const id = await postOne(daemon, { start_at: farStart() });
  const unknown = id.replace(/.$/, (last) => (last === "0" ? "1" : "0"));
  const expected = '{"status_code":40401,"status_message":"Task Not Found."}';
  for (const each of [
    unknown,
    "x",
    id.toUpperCase(),
    `${id}x`,
    `{${id}}`,
    "%00",
    "__proto__",
    "'",
  ]) {
    const { status, text } = await cancel(daemon, each);
    assert.deepEqual([status, text], [404, expected], each);
  }
  const foreign = await cancel({ ...daemon, account }, id);
  assert.deepEqual([foreign.status, foreign.text], [404, expected]);
  assert.equal((await daemon.get(id)).state, "queued");
});

test("an id from before the retention period is 40403, that of an erased task too", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock });
  const id = await postOne(daemon, { start_at: LATER });
  await cancel(daemon, id);
  clock.jump(30 * DAY - 60_000);
  await daemon.daemon.idle();
  assert.equal((await cancel(daemon, id)).status, 200);

  clock.jump(180_000);
  await daemon.daemon.idle();
  const { status, text } = await cancel(daemon, id);
  const expected = '{"status_code":40403,"status_message":"Results Expired."}';
  assert.deepEqual([status, text], [410, expected]);
});

clusterTest(
  "a cancel that races with the claim and the end of its task gets a true answer",
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

clusterTest("many that cancel one running task at once all get the same answer", async (t) => {
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { toml: held.toml });
  const id = await postOne(daemon, { type: "hold" });
  const process = await held.next();
  const answers = await Promise.all(Array.from({ length: 40 }, () => cancel(daemon, id)));
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.ok(answers.every(({ status }) => status === 200));
  await process.ended;
});

test("a task that waits for its retry can be cancelled, and the retry does not come", async (t) => {
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

test("a client that waits for the task is told of its cancellation at once", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const held = await openHeldTasks(t);
  const daemon = await startTestDaemon(t, { clock, toml: held.toml });
  const running = await postOne(daemon, { type: "hold" });
  const queued = await postOne(daemon, { type: "hold" });
  const process = await held.next();
  for (const id of [queued, running]) {
    const timers = clock.pending().length;
    const headers = ["Prefer: wait=60"];
    const waiting = request(daemon, { target: taskGet(id), headers });
    await clock.whenPending(timers + 1);
    const { text } = await cancel(daemon, id);
    assert.equal((await waiting).text, text);
  }
  await process.ended;
  assert.equal(clock.now(), NOW);
});

test("a body is optional and has no fields; whatever else is sent is refused, and nothing is cancelled", async (t) => {
  const daemon = await startTestDaemon(t);
  const id = await postOne(daemon, { start_at: farStart() });
  const post = { method: "POST", target: cancelPath(id) };
  const cases = [
    [40501, '{"reason":"x"}'],
    [40501, '{"__proto__":{}}'],
    ...["[]", "[{}]", "1", "null", '"x"', "{", "\xff", " "].map((body) => [40503, body] as const),
  ] as const;
  for (const [code, body] of cases) {
    const got = await request(daemon, { ...post, headers: [JSON_TYPE], body });
    assert.equal(got.code, code, body);
  }
  const named = await request(daemon, { ...post, headers: [JSON_TYPE], body: '{"a/b":1,"c":2}' });
  const { status_message: message, errors } = JSON.parse(named.text);
  assert.equal(message, "Invalid Field: 'a/b'. It is not known here.");
  const pointers = errors.map(({ pointer }: { pointer: string }) => pointer);
  assert.deepEqual([named.status, pointers], [400, ["/a~1b", "/c"]]);
  const text = await request(daemon, {
    ...post,
    headers: ["Content-Type: text/plain"],
    body: "{}",
  });
  assert.equal(text.code, 41500);
  assert.equal((await request(daemon, { ...post, target: `${cancelPath(id)}?x=1` })).code, 40000);
  const got = await request(daemon, { target: cancelPath(id) });
  assert.deepEqual([got.code, got.header("allow")], [40500, "POST"]);
  assert.equal((await daemon.call(cancelPath(id), { method: "DELETE" })).status, 405);
  const stranger = { ...daemon.account, key: "nonsense" };
  assert.equal((await request({ ...daemon, account: stranger }, post)).code, 40100);
  assert.equal((await daemon.get(id)).state, "queued");

  const empty = await request(daemon, { ...post, headers: [JSON_TYPE], body: "{}" });
  assert.equal(empty.code, 20000);
  const none = await request(daemon, { ...post, headers: ["Content-Length: 0"] });
  assert.equal(none.text, empty.text);
});

clusterTest("what was cancelled before a restart does not run after it", async (t) => {
  const held = await openHeldTasks(t);
  const first = await startTestDaemon(t, { toml: held.toml });
  const running = await postOne(first, { type: "hold" });
  const queued = await postOne(first, { type: "hold" });
  await held.next();
  const answers = [await cancel(first, queued), await cancel(first, running)];
  await first.daemon.stop();
  const { folder, account } = first;
  const toml = '[types.hold]\nrunner = "echo"\n';
  const second = await startTestDaemon(t, { folder, account, toml });
  await second.daemon.idle();

  const texts = [await shown(second, queued), await shown(second, running)];
  assert.deepEqual(
    texts,
    answers.map(({ text }) => text),
  );
  assert.equal((await cancel(second, running)).text, answers[1]?.text);
});

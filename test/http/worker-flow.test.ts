import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { clusterTest } from "../helpers/cluster-test.ts";
import { openAdminStore, startTestDaemon, type TestDaemonOptions } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { exchange, openRaw, toBytes } from "../helpers/raw-http.ts";
import { ask, bearer, complaints, taskGet, TASKS_READY, toAnswer } from "./answer.ts";
import {
  askAsWorker,
  claim,
  createTestWorker,
  outcomesOf,
  tasksOf,
  workerPost,
  type Called,
  type ClaimedTask,
} from "./worker-requests.ts";

/** The worker protocol (contract §7) at the daemon's own desk. */

const TYPES = ["print"];
const NOW = Date.parse("2030-01-31T09:00:00.000Z");

async function startWorkers(t: TestContext, options: TestDaemonOptions = {}) {
  const toml = '[types.print]\nrunner = "worker"\nlease = "30s"\n';
  const daemon = await startTestDaemon(t, { toml, ...options });
  const token = await createTestWorker(daemon.file, TYPES);
  return { ...daemon, token };
}

/** A claim on a connection of its own, at the daemon's desk when this settles. */
async function startClaim(t: TestContext, called: Called, waitSeconds: number) {
  const connection = await openRaw(t, called.url);
  const body = { types: TYPES, wait_seconds: waitSeconds };
  connection.send(toBytes(workerPost(called, { operation: "claim", body })));
  // By the third answer the daemon has seen what other connections sent before.
  for (let i = 0; i < 3; i++) await exchange(called.url, { target: "/livez" });
  return {
    connection,
    answered: async () => tasksOf<ClaimedTask>(toAnswer(await connection.next())),
  };
}

function ref({ id, lease_id }: ClaimedTask) {
  return { id, lease_id };
}

test("a task goes the whole way: posted, claimed, kept, completed, and got", async (t) => {
  const daemon = await startWorkers(t, { clock: createFakeClock({ now: NOW }) });
  const posted = '{"input":{"a":1.50,"b":[12345678901234567890]},"tag":"t"}';
  const id = (await daemon.post(posted)).tasks[0]?.id ?? "";
  const { response } = await askAsWorker(daemon, "claim", { types: TYPES, max: 100 });
  const text = response.body.toString();
  assert.ok(text.includes('"input":{"a":1.50,"b":[12345678901234567890]}'), text);
  const [task, ...others] = tasksOf<ClaimedTask>({ code: 20000, response });
  assert.ok(task !== undefined && others.length === 0);
  assert.deepEqual(
    [task.id, task.type, task.tag, task.marketplace, task.run, task.lease_expires_at],
    [id, "print", "t", null, 1, "2030-01-31T09:00:30.000Z"],
  );
  assert.deepEqual(await claim(daemon, { types: TYPES }), []);

  const beat = { leases: [ref(task)], progress: { progress: 0.25, note: "1 of 4" } };
  assert.deepEqual(await outcomesOf(daemon, "heartbeat", beat), [{ id, outcome: "ok" }]);
  const result = `{"tasks":[{"id":"${id}","lease_id":"${task.lease_id}","result":[1.0,-0]}]}`;
  for (let i = 0; i < 2; i++) {
    assert.deepEqual(await outcomesOf(daemon, "complete", result), [{ id, outcome: "ok" }]);
  }
  const got = await ask(daemon.url, { target: taskGet(id), headers: [bearer(daemon)] });
  assert.match(got.response.body.toString(), /"state":"completed".*"result":\[1\.0,-0\]/);
  assert.deepEqual(complaints(daemon), []);
});

test("progress is shown while a task runs, in lists too, and never in what it was", async (t) => {
  const daemon = await startWorkers(t);
  const id = (await daemon.post({})).tasks[0]?.id ?? "";
  const shown = async (path: string): Promise<unknown> => {
    const { response } = await ask(daemon.url, { target: path, headers: [bearer(daemon)] });
    return JSON.parse(response.body.toString()).tasks[0].progress;
  };
  const [task] = await claim(daemon, { types: TYPES });
  assert.ok(task !== undefined);
  assert.equal(await shown(taskGet(id)), null);
  for (const [progress, note] of [
    [0, null],
    [0.5, 'half "way" é'],
    [1, null],
  ] as const) {
    const beat = { leases: [{ ...ref(task), progress: { progress, note } }] };
    await outcomesOf(daemon, "heartbeat", beat);
    assert.deepEqual(await shown(taskGet(id)), { progress, note });
    assert.deepEqual(await shown("/v1/tasks"), { progress, note });
  }
  await outcomesOf(daemon, "heartbeat", { leases: [ref(task)] });
  assert.deepEqual(await shown(taskGet(id)), { progress: 1, note: null }, "no word, no change");
  await outcomesOf(daemon, "complete", { tasks: [{ ...ref(task), result: 1 }] });
  for (const path of [TASKS_READY, "/v1/tasks", taskGet(id)]) {
    assert.equal(await shown(path), null, path);
  }
});

test("the progress of a run is gone with it: the next run begins with none", async (t) => {
  const daemon = await startWorkers(t);
  const id = (await daemon.post({})).tasks[0]?.id ?? "";
  const progressNow = async (): Promise<unknown> =>
    JSON.parse(await (await daemon.call(taskGet(id))).text()).tasks[0].progress;
  const [first] = await claim(daemon, { types: TYPES });
  assert.ok(first !== undefined);
  await outcomesOf(daemon, "heartbeat", { leases: [ref(first)], progress: { progress: 0.5 } });
  assert.deepEqual(await progressNow(), { progress: 0.5, note: null });
  await outcomesOf(daemon, "release", { tasks: [ref(first)] });
  assert.equal(await progressNow(), null);
  await claim(daemon, { types: TYPES });
  assert.equal(await progressNow(), null);
});

test("a result that is too large fails its run with 50010, and the worker is told", async (t) => {
  const toml = '[limits]\nresult = "1KiB"\n[types.print]\nrunner = "worker"\n';
  const daemon = await startWorkers(t, { toml });
  const id = (await daemon.post({})).tasks[0]?.id ?? "";
  const [task] = await claim(daemon, { types: TYPES });
  assert.ok(task !== undefined);
  const tasks = [{ ...ref(task), result: "x".repeat(1024) }];
  const [told] = await outcomesOf(daemon, "complete", { tasks });

  assert.equal(told?.outcome, "ok");
  assert.match(told?.detail ?? "", /is over 1024 bytes.*failed\.$/);
  const { status_code, result, error } = await daemon.get(id);
  assert.deepEqual([status_code, result], [50010, null]);
  assert.match(error?.message ?? "", /is over 1024 bytes/);
});

clusterTest("a claim that waits gets the task that is posted meanwhile", async (t) => {
  const daemon = await startWorkers(t);
  const waiting = await startClaim(t, daemon, 30);
  const id = (await daemon.post({})).tasks[0]?.id;

  assert.deepEqual(
    (await waiting.answered()).map((task) => task.id),
    [id],
  );
});

test("a claim waits as long as it was asked to, to the millisecond, and then comes back empty", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startWorkers(t, { clock });
  const waiting = await startClaim(t, daemon, 2.5);
  let isAnswered = false;
  const answered = waiting.answered().then((tasks) => {
    isAnswered = true;
    return tasks;
  });
  clock.advance(2499);
  for (let i = 0; i < 3; i++) await exchange(daemon.url, { target: "/livez" });
  assert.equal(isAnswered, false);
  clock.advance(1);
  assert.deepEqual(await answered, []);
});

clusterTest(
  "a token that is revoked while its claim waits gets no task: the next worker does, in the same run",
  async (t) => {
    const daemon = await startWorkers(t);
    const other = await createTestWorker(daemon.file, TYPES, "other");
    const waiting = await startClaim(t, daemon, 30);
    const store = await openAdminStore(daemon.file);
    t.after(() => store.close());
    await store.revokeWorker({ name: "press", revokedAt: Date.now() });
    const id = (await daemon.post({})).tasks[0]?.id;

    assert.equal(toAnswer(await waiting.connection.next()).code, 40101);
    const [task] = await claim({ ...daemon, token: other }, { types: TYPES, wait_seconds: 30 });
    assert.deepEqual([task?.id, task?.run], [id, 1]);
  },
);

clusterTest("a worker that hangs up while it waits takes no task with it", async (t) => {
  const daemon = await startWorkers(t);
  const waiting = await startClaim(t, daemon, 30);
  waiting.connection.reset();
  for (let i = 0; i < 3; i++) await exchange(daemon.url, { target: "/livez" });
  const id = (await daemon.post({})).tasks[0]?.id;
  const [task] = await claim(daemon, { types: TYPES, wait_seconds: 30 });

  assert.deepEqual([task?.id, task?.run], [id, 1]);
});

test("what a worker has sent before a stop is still taken, and a heartbeat says that the daemon stops", async (t) => {
  const daemon = await startWorkers(t);
  const id = (await daemon.post({})).tasks[0]?.id ?? "";
  const [task] = await claim(daemon, { types: TYPES });
  assert.ok(task !== undefined);
  const { connection, answered } = await startClaim(t, daemon, 30);
  const leases = [ref(task)];
  connection.send(toBytes(workerPost(daemon, { operation: "heartbeat", body: { leases } })));
  const tasks = [{ ...ref(task), result: 1 }];
  connection.send(toBytes(workerPost(daemon, { operation: "complete", body: { tasks } })));
  for (let i = 0; i < 3; i++) await exchange(daemon.url, { target: "/livez" });
  const stopped = daemon.daemon.stop();

  assert.deepEqual(await answered(), []);
  const ok = [{ id, outcome: "ok" }];
  const beat = toAnswer(await connection.next());
  assert.deepEqual(tasksOf(beat), ok);
  assert.equal(JSON.parse(beat.response.body.toString()).drain, true);
  assert.deepEqual(tasksOf(toAnswer(await connection.next())), ok);
  await stopped;
});

clusterTest("a stop lets every claim that waits come back at once and empty", async (t) => {
  const daemon = await startWorkers(t);
  const waiting = [await startClaim(t, daemon, 30), await startClaim(t, daemon, 30)];
  const stopped = daemon.daemon.stop();
  for (const { answered } of waiting) assert.deepEqual(await answered(), []);
  await stopped;
  assert.deepEqual(complaints(daemon), []);
});

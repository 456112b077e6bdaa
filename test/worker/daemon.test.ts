import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { NOW, settled, startRealWorker } from "./worker-setup.ts";

const TOML = '[types.x]\nrunner = "worker"\nlease = "30s"\ntimeout = "10m"\nretries = 1\n';

/** The real daemon and a worker of it, both on the test's clock. */
async function startPair(t: TestContext, { concurrency = 1 } = {}) {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: TOML });
  const token = await createTestWorker(daemon.file, ["x"]);
  const worker = startRealWorker(t, { url: daemon.url, token, clock, concurrency });
  t.after(() => worker.stop());
  const post = async (input: unknown): Promise<string> => {
    const { tasks } = await daemon.post([{ type: "x", input }]);
    return tasks[0]?.id ?? "";
  };
  return { clock, daemon, worker, post };
}

test("keeps a lease for as long as a run takes, and shows how far it is", async (t) => {
  const { clock, daemon, worker, post } = await startPair(t);
  const id = await post({ n: 1 });
  const run = await worker.running(1);
  run.options.report({ progress: 0.5, note: "half" });

  for (let beat = 1; beat <= 12; beat++) {
    await settled();
    clock.advance(10_000);
    await worker.whenAnswered("heartbeat", beat);
  }
  const shown = await daemon.call(`/v1/tasks/task_get/${id}`);
  const body = await shown.text();
  run.end({ kind: "completed", resultText: "[1.0]" });
  await worker.whenAnswered("complete");

  assert.match(body, /"state":"running".*"runs":1,"progress":\{"progress":0\.5,"note":"half"\}/);
  const task = await daemon.get(id);
  assert.deepEqual([task.state, task.result, task.runs], ["completed", [1], 1]);
});

test("gives the tasks that still run after the grace back, as if they had not been started", async (t) => {
  const { clock, daemon, worker, post } = await startPair(t, { concurrency: 2 });
  const ids = [await post(1), await post(2)];
  await worker.running(2);

  worker.stop();
  await settled();
  clock.advance(25_000);
  await worker.end;

  const tasks = await Promise.all(ids.map((id) => daemon.get(id)));
  assert.deepEqual(
    tasks.map(({ state, runs }) => [state, runs]),
    [
      ["queued", 0],
      ["queued", 0],
    ],
  );
});

test("reports how a run failed, and runs it again where the type says so", async (t) => {
  const { clock, daemon, worker, post } = await startPair(t);
  const id = await post(null);
  const failure = { kind: "failed", message: "No disk.", detail: { exit_code: 28 } } as const;

  (await worker.running(1)).end(failure);
  await worker.whenAnswered("fail");
  assert.equal((await daemon.get(id)).state, "queued");
  clock.advance(2000);
  (await worker.running(2)).end(failure);
  await worker.whenAnswered("fail", 2);

  const { status_code, error, runs } = await daemon.get(id);
  assert.deepEqual(
    [status_code, error, runs],
    [50010, { message: "No disk.", detail: { exit_code: 28 } }, 2],
  );
});

test("ends in time with what it holds when its daemon is gone for good", async (t) => {
  const { clock, daemon, worker, post } = await startPair(t);
  await post(1);
  const run = await worker.running(1);
  await daemon.daemon.stop();
  run.end({ kind: "completed", resultText: "1" });
  await worker.whenAnswered("complete");

  worker.stop();
  let isOver = false;
  void worker.end.then(() => (isOver = true));
  const stoppedAt = clock.monotonic();
  while (!isOver) {
    clock.advance(1000);
    await settled();
  }

  assert.deepEqual(await worker.end, { kind: "stopped" });
  // Nothing but time passes while a request is under way: some of it is the loop's.
  assert.ok(clock.monotonic() - stoppedAt >= 29_000);
});

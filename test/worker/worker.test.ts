import assert from "node:assert/strict";
import { test } from "node:test";

import type { ServiceAnswer } from "../../src/deliver/service-client.ts";
import {
  answer,
  claimedTask,
  giving,
  never,
  outcomes,
  settled,
  setUpWorker,
} from "./worker-setup.ts";

const DONE = { kind: "completed", resultText: '{"n":1.10}' } as const;

test("runs a claimed task and completes it with every digit of the result", async (t) => {
  const worker = setUpWorker(t, { answering: giving(["a"]) });

  const run = await worker.running(1);
  const { inputText, ...request } = run.request;
  assert.deepEqual(request, { id: "a", type: "x", tag: null, marketplace: null, trace: null });
  assert.equal(inputText, '{"n":1}');
  run.end(DONE);
  const { text } = await worker.whenAsked("complete");

  assert.equal(text, '{"tasks":[{"id":"a","lease_id":"lease-a","result":{"n":1.10}}]}');
  assert.ok(worker.isReady());
});

test("claims first without a wait, then waits 30 s for its free slots", async (t) => {
  const worker = setUpWorker(t, { answering: giving(["a"]), concurrency: 3 });

  const second = await worker.whenAsked("claim", 2);

  const bodies = worker.asked("claim").map(({ body }) => body);
  assert.deepEqual(bodies, [
    { types: ["x"], max: 3, wait_seconds: 0 },
    { types: ["x"], max: 2, wait_seconds: 30 },
  ]);
  assert.equal(second.at, 0);
});

test("claims again only after the response to a completion", async (t) => {
  const complete = Promise.withResolvers<ServiceAnswer>();
  const give = giving(["a", "b"]);
  const worker = setUpWorker(t, {
    answering: (asked) => (asked.operation === "complete" ? complete.promise : give(asked)),
  });

  const run = await worker.running(1);
  run.end(DONE);
  await worker.whenAsked("complete");
  await settled();
  assert.equal(worker.asked("claim").length, 1);
  complete.resolve(outcomes([{ id: "a" }], "ok"));
  await worker.whenAsked("claim", 2);
});

test("sends one heartbeat for all leases at a third of their time", async (t) => {
  const worker = setUpWorker(t, { answering: giving(["a", "b"]), concurrency: 2 });
  await worker.running(2);
  await settled();

  worker.clock.advance(9_999);
  await settled();
  assert.deepEqual(worker.asked("heartbeat"), []);
  worker.clock.advance(1);
  const { body } = await worker.whenAsked("heartbeat");
  await settled();
  worker.clock.advance(10_000);
  await worker.whenAsked("heartbeat", 2);

  assert.deepEqual(body, {
    leases: [
      { id: "a", lease_id: "lease-a" },
      { id: "b", lease_id: "lease-b" },
    ],
  });
});

test("uses the shorter estimate of a lease, so that a wrong clock loses no lease", async (t) => {
  // The daemon's clock is an hour behind ours: by ours the lease ran out long ago.
  const tasks = [claimedTask("a", Date.parse("2030-01-31T08:00:00.000Z"))];
  const date = new Date("2030-01-31T08:00:00.000Z").toUTCString();
  const worker = setUpWorker(t, {
    answering: ({ operation, body }) =>
      operation === "claim" ? answer({ tasks }, { date }) : outcomes(body.leases, "ok"),
  });
  await worker.running(1);
  await settled();

  worker.clock.advance(9_999);
  await settled();
  assert.deepEqual(worker.asked("heartbeat"), []);
  worker.clock.advance(1);

  await worker.whenAsked("heartbeat");
});

test("sends the last progress within a second", async (t) => {
  const worker = setUpWorker(t, { answering: giving(["a"]) });
  const run = await worker.running(1);
  await settled();

  run.options.report({ progress: 0.25, note: null });
  run.options.report({ progress: 0.5, note: "half" });
  await settled();
  worker.clock.advance(999);
  await settled();
  assert.deepEqual(worker.asked("heartbeat"), []);
  worker.clock.advance(1);
  const { body } = await worker.whenAsked("heartbeat");

  assert.deepEqual(body.leases[0]?.["progress"], { progress: 0.5, note: "half" });
});

for (const outcome of ["cancelled", "lost"]) {
  test(`stops a run whose lease is ${outcome} without a report, and continues`, async (t) => {
    const give = giving(["a", "b"]);
    const worker = setUpWorker(t, {
      answering: (asked) =>
        asked.operation === "heartbeat" ? outcomes(asked.body.leases, outcome) : give(asked),
    });
    const run = await worker.running(1);
    await settled();

    worker.clock.advance(10_000);
    await worker.running(2);

    assert.ok(run.options.signal.aborted);
    assert.deepEqual([worker.asked("complete"), worker.asked("release")], [[], []]);
    await worker.whenLogged(outcome === "lost" ? "lease was lost" : "was cancelled");
  });
}

test("sends no heartbeat for a run that stops slowly", async (t) => {
  const give = giving(["a"]);
  const worker = setUpWorker(t, {
    isStubborn: true,
    answering: (asked) =>
      asked.operation === "heartbeat" ? outcomes(asked.body.leases, "lost") : give(asked),
  });
  const run = await worker.running(1);
  await settled();
  worker.clock.advance(10_000);
  await worker.whenAsked("heartbeat");
  await settled();

  worker.clock.advance(20_000);
  await settled();
  assert.equal(worker.asked("heartbeat").length, 1);
  run.end(DONE);

  await worker.whenLogged("lease was lost");
  assert.deepEqual(worker.asked("complete"), []);
});

test("ignores the loss of a lease that its own completion ends", async (t) => {
  const complete = Promise.withResolvers<ServiceAnswer>();
  const give = giving(["a"]);
  const worker = setUpWorker(t, {
    answering: (asked) => {
      if (asked.operation === "complete") return complete.promise;
      if (asked.operation === "heartbeat") return outcomes(asked.body.leases, "lost");
      return give(asked);
    },
  });
  (await worker.running(1)).end(DONE);
  await worker.whenAsked("complete");

  worker.clock.advance(10_000);
  await worker.whenAsked("heartbeat");
  complete.resolve(outcomes([{ id: "a" }], "ok"));

  await worker.whenLogged('"msg":"completed"');
});

test("sends ends during a request with the next request, completions and failures apart", async (t) => {
  const first = Promise.withResolvers<ServiceAnswer>();
  const give = giving(["a", "b", "c", "d"]);
  let isFirst = true;
  const worker = setUpWorker(t, {
    concurrency: 4,
    answering: (asked) => {
      if (asked.operation !== "complete" || !isFirst) return give(asked);
      isFirst = false;
      return first.promise;
    },
  });
  const [a, b, c, d] = await Promise.all([1, 2, 3, 4].map((n) => worker.running(n)));
  a?.end(DONE);
  await worker.whenAsked("complete");

  b?.end(DONE);
  c?.end(DONE);
  d?.end({ kind: "failed", message: "No.", detail: { exit_code: 3 } });
  first.resolve(outcomes([{ id: "a" }], "ok"));
  const fail = await worker.whenAsked("fail");

  const completed = worker.asked("complete").map(({ body }) => body.tasks.map(({ id }) => id));
  assert.deepEqual(completed, [["a"], ["b", "c"]]);
  const failure = { id: "d", lease_id: "lease-d", message: "No.", detail: { exit_code: 3 } };
  assert.deepEqual(fail.body, { tasks: [failure] });
});

test("does not repeat a request sooner because of another end", async (t) => {
  const give = giving(["a", "b"]);
  let isFirst = true;
  const worker = setUpWorker(t, {
    concurrency: 2,
    answering: (asked) => {
      if (asked.operation !== "complete" || !isFirst) return give(asked);
      isFirst = false;
      return { kind: "unreachable", error: "connection refused" };
    },
  });
  const [a, b] = await Promise.all([worker.running(1), worker.running(2)]);
  a.end(DONE);
  await worker.whenAsked("complete");
  await settled();

  b.end(DONE);
  await settled();
  assert.equal(worker.asked("complete").length, 1);
  worker.clock.advance(1000);

  assert.equal((await worker.whenAsked("complete", 2)).body.tasks.length, 2);
});

test("releases tasks above its max", async (t) => {
  const worker = setUpWorker(t, {
    answering: ({ operation, body }) =>
      operation === "claim"
        ? answer({ tasks: ["a", "b"].map((id) => claimedTask(id)) })
        : outcomes(body.tasks, "ok"),
  });
  await worker.running(1);

  const { body } = await worker.whenAsked("release");

  assert.deepEqual(body, { tasks: [{ id: "b", lease_id: "lease-b" }] });
});

test("at a stop ends a waiting claim, and lets runs end", async (t) => {
  const worker = setUpWorker(t, { answering: giving(["a"]), concurrency: 2 });
  const run = await worker.running(1);
  await worker.whenAsked("claim", 2);

  worker.stop();
  await settled();
  assert.equal(run.options.signal.aborted, false);
  run.end(DONE);

  assert.deepEqual(await worker.end, { kind: "stopped" });
  assert.deepEqual(worker.asked("complete").length, 1);
  assert.deepEqual(worker.asked("claim").length, 2);
});

test("at a stop releases the tasks of a claim in progress", async (t) => {
  const claim = Promise.withResolvers<ServiceAnswer>();
  const worker = setUpWorker(t, {
    answering: ({ operation, body }) =>
      operation === "claim" ? claim.promise : outcomes(body.tasks, "ok"),
  });
  await worker.whenAsked("claim");

  claim.resolve(answer({ tasks: [claimedTask("a")] }));
  worker.stop();

  assert.deepEqual(await worker.end, { kind: "stopped" });
  assert.equal(worker.asked("release").length, 1);
});

test("at a stop releases runs that are longer than the grace", async (t) => {
  const worker = setUpWorker(t, { answering: giving(["a"]) });
  const run = await worker.running(1);
  await settled();

  worker.stop();
  await settled();
  worker.clock.advance(24_999);
  await settled();
  assert.equal(run.options.signal.aborted, false);
  worker.clock.advance(1);

  assert.deepEqual(await worker.end, { kind: "stopped" });
  const released = worker.asked("release").map(({ body }) => body);
  assert.deepEqual(released, [{ tasks: [{ id: "a", lease_id: "lease-a" }] }]);
  assert.ok(worker.asked("heartbeat").length > 0, "its lease was kept meanwhile");
});

test("ends although its last request has no response", async (t) => {
  const give = giving(["a"]);
  const worker = setUpWorker(t, {
    answering: (asked) => (asked.operation === "release" ? never() : give(asked)),
  });
  await worker.running(1);
  await settled();

  worker.stop();
  await settled();
  worker.clock.advance(25_000);
  await worker.whenAsked("release");
  await settled();
  worker.clock.advance(4_000);

  assert.deepEqual(await worker.end, { kind: "stopped" });
});

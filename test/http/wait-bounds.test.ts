import assert from "node:assert/strict";
import { test } from "node:test";

import { createTestAccount, startTestDaemon } from "../helpers/daemon.ts";
import { farStart } from "../helpers/far-start.ts";
import { headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { bearer, codeOf, taskGet, TASKS_READY, toAnswer } from "./answer.ts";
import { startRing } from "./ring.ts";
import { askAsWorker, workerPost } from "./worker-requests.ts";

test("a claim without a place to wait is 42900 if the queue is empty", async (t) => {
  const waiting = Promise.withResolvers<void>();
  const come = Promise.withResolvers<[]>();
  t.after(() => come.resolve([]));
  const waits: number[] = [];
  const ring = await startRing(t, {
    // A quarter of them may wait.
    limits: { connections: 4 },
    desk: {
      claim({ waitMs }) {
        waits.push(waitMs);
        if (waitMs === 0) return Promise.resolve([]);
        waiting.resolve();
        return come.promise;
      },
    },
  });
  const body = { types: ["print"], wait_seconds: 30 };
  const first = await openRaw(t, ring.url);
  first.send(toBytes(workerPost(ring, { operation: "claim", body })));
  await waiting.promise;

  const { code, response, body: refused } = await askAsWorker(ring, "claim", body);
  assert.deepEqual([code, headerOf(response, "retry-after")], [42900, "5"]);
  assert.match(refused.errors?.[0]?.detail ?? "", /limits\.connections/);
  assert.equal((await askAsWorker(ring, "claim", { types: ["print"] })).code, 20000);
  assert.deepEqual(waits, [30_000, 0, 0]);

  come.resolve([]);
  assert.equal(toAnswer(await first.next()).code, 20000);
});

test("an account may wait on half of the connections of its address", async (t) => {
  // An address may have 256 connections.
  const daemon = await startTestDaemon(t, { toml: "[limits]\nconnections = 1024\n" });
  const other = { account: await createTestAccount(daemon.file, "other") };
  const { tasks } = await daemon.post([{ start_at: farStart() }]);
  const headers = [bearer(daemon), "Prefer: wait=60"];
  const wait = toBytes({ target: taskGet(tasks[0]?.id ?? ""), headers });
  let refused = 0;
  const half = Promise.withResolvers<void>();
  for (let i = 0; i < 256; i++) {
    const connection = await openRaw(t, daemon.url);
    connection.send(wait);
    connection.next().then(({ status }) => {
      // Those that wait end with the daemon.
      if (status === 429) refused += 1;
      if (refused === 128) half.resolve();
    }, half.reject);
  }
  await half.promise;

  assert.equal(await codeOf(daemon.url, { target: TASKS_READY, headers: [bearer(other)] }), 20000);
  assert.equal(refused, 128);
});

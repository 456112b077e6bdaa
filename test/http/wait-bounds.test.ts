import assert from "node:assert/strict";
import { test } from "node:test";

import { headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { toAnswer } from "./answer.ts";
import { startRing } from "./ring.ts";
import { askAsWorker, workerPost } from "./worker-requests.ts";

test("a claim for which there is no place to wait gets what is there, or is told when to come again", async (t) => {
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
  assert.equal(code, 42900);
  assert.match(refused.errors?.[0]?.detail ?? "", /may have 1 requests wait at once/);
  assert.equal(headerOf(response, "retry-after"), "5");
  assert.equal((await askAsWorker(ring, "claim", { types: ["print"] })).code, 20000);
  assert.deepEqual(waits, [30_000, 0, 0]);

  come.resolve([]);
  assert.equal(toAnswer(await first.next()).code, 20000);
});

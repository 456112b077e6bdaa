import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { Arrivals, tagText, type Tag } from "../../scripts/deliveries/arrivals.ts";
import { VERIFIED_EVERY, type ReceivedWebhook } from "../../scripts/kit/webhook-receiver.ts";

const SECRET = "whsec_c2VjcmV0";
const MEASURED = { from: 1000, to: 2000, retriesFrom: 5000 };

function postback(
  tag: Tag,
  {
    completedAt = 0,
    attempt = 1,
    id = "t",
  }: { completedAt?: number; attempt?: number; id?: string },
): ReceivedWebhook {
  const completed = new Date(completedAt).toISOString();
  const body = Buffer.from(
    `{"id":"${id}","completed_at":"${completed}","data":{"type":"echo","tag":"${tagText(tag)}"}}`,
  );
  const hex = createHmac("sha256", SECRET).update(body).digest("hex");
  const what = { kind: "postback", taskId: id, attempt, head: "", receivedAt: 0 } as const;
  return { ...what, body, signed: body, signature: `sha256=${hex}` };
}

test("a fresh delivery's latency counts from its completion, and from the time it was to be posted", () => {
  const arrivals = new Arrivals(SECRET, MEASURED);
  arrivals.add(postback({ kind: "fresh", at: 1000.5 }, { completedAt: 1030 }), 1040);

  const { fromCompletion, fromPost } = arrivals.report;
  assert.equal(fromCompletion.maxMs, 10);
  assert.equal(fromPost.maxMs, 39.5);
  assert.deepEqual(arrivals.counts, { fresh: 1, retries: 0 });
});

test("what was to be posted before or after the measured time is not counted", () => {
  const arrivals = new Arrivals(SECRET, MEASURED);
  arrivals.add(postback({ kind: "fresh", at: 999.9 }, { id: "early" }), 1500);
  arrivals.add(postback({ kind: "fresh", at: 2000 }, { id: "late" }), 2500);

  assert.deepEqual(arrivals.counts, { fresh: 0, retries: 0 });
});

test("a postback that arrives a second time is counted as repeated and not measured", () => {
  const arrivals = new Arrivals(SECRET, MEASURED);
  arrivals.add(postback({ kind: "fresh", at: 1000 }, {}), 1500);
  arrivals.add(postback({ kind: "fresh", at: 1000 }, {}), 1900);

  assert.equal(arrivals.report.repeated, 1);
  assert.equal(arrivals.report.fromPost.maxMs, 500);
});

test("a retry's lateness counts from when it was due; what follows it is not counted", () => {
  const arrivals = new Arrivals(SECRET, MEASURED);
  arrivals.add(postback({ kind: "retry", at: 300 }, { attempt: 2 }), 5307);
  arrivals.add(postback({ kind: "retry", at: 300 }, { attempt: 3 }), 9000);

  assert.equal(arrivals.report.retries.count, 1);
  assert.equal(arrivals.report.retries.maxMs, 7);
});

test("signatures of a sample are verified", () => {
  const arrivals = new Arrivals("whsec_b3RoZXI=", MEASURED);
  for (let i = 0; i < VERIFIED_EVERY; i++) {
    arrivals.add(postback({ kind: "fresh", at: 1000 }, { id: `t${i}` }), 1500);
  }

  assert.equal(arrivals.report.verified, 1);
  assert.equal(arrivals.report.badSignatures, 1);
});

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { findForeignHmac, type ForeignHmac } from "../../scripts/demo/foreign-hmac.ts";
import { wronglySigned } from "../../scripts/demo/signatures.ts";
import type { ReceivedWebhook } from "../../scripts/kit/webhook-receiver.ts";
import { signStandardWebhook, signWebhook } from "../../src/domain/webhook/signature.ts";

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

// Stands in for python3 and openssl where neither is installed; the test below compares them with it.
const nodeHmac: ForeignHmac = {
  name: "Node's own",
  sign: (jobs) =>
    jobs.map(({ key, message }) => createHmac("sha256", key).update(message).digest("hex")),
};

function postback(taskId: string): ReceivedWebhook {
  const body = Buffer.from(`{"id":"${taskId}"}`);
  const message = { id: `${taskId}-postback`, timestamp: 1_700_000_000, body };
  const head = [
    "POST / HTTP/1.1",
    `webhook-id: ${message.id}`,
    `webhook-timestamp: ${message.timestamp}`,
    `webhook-signature: ${signStandardWebhook(message, [SECRET])}`,
  ].join("\r\n");
  const signature = signWebhook(body, SECRET);
  return {
    kind: "postback",
    taskId,
    signed: body,
    signature,
    attempt: 1,
    head,
    body,
    receivedAt: 0,
  };
}

test("what postbackd signs is found right", () => {
  assert.deepEqual(wronglySigned([postback("a")], { hmac: nodeHmac, secret: SECRET }), []);
});

test("a changed body, a changed signature and another secret are found wrong", () => {
  const good = postback("a");
  const changedBody = Buffer.from(`${good.body.toString()}x`);
  const webhooks = [
    good,
    { ...postback("b"), body: changedBody, signed: changedBody },
    { ...postback("c"), signature: `sha256=${"0".repeat(64)}` },
    { ...postback("d"), head: good.head },
  ];

  assert.deepEqual(wronglySigned(webhooks, { hmac: nodeHmac, secret: SECRET }), ["b", "c", "d"]);
  const other = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
  assert.equal(wronglySigned(webhooks, { hmac: nodeHmac, secret: other }).length, 4);
});

test("the foreign program computes HMAC-SHA256", (t) => {
  const hmac = findForeignHmac();
  if (hmac === null) {
    t.skip("neither python3 nor openssl is installed");
    return;
  }
  // Keys shorter and longer than SHA-256's block, messages with every byte.
  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const jobs = [20, 64, 131].map((length) => ({
    key: Buffer.alloc(length, 0xaa),
    message: everyByte,
  }));

  assert.deepEqual(hmac.sign(jobs), nodeHmac.sign(jobs));
});

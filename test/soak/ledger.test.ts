import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import type { ReceivedWebhook } from "../../scripts/kit/webhook-receiver.ts";
import { Ledger } from "../../scripts/soak/ledger.ts";

const SECRET = "whsec_c2VjcmV0";
const ID = "01983c5e-7d5c-7000-8000-000000000001";

function postback(bodyText: string, secret = SECRET): ReceivedWebhook {
  const body = Buffer.from(bodyText);
  return { ...webhook(body, secret), kind: "postback", body };
}

function pingback(url: string): ReceivedWebhook {
  return { ...webhook(Buffer.from(url), SECRET), kind: "pingback", body: Buffer.alloc(0) };
}

function webhook(signed: Buffer, secret: string): Omit<ReceivedWebhook, "kind" | "body"> {
  const hex = createHmac("sha256", secret).update(signed).digest("hex");
  const what = { taskId: ID, attempt: 1, head: "", receivedAt: 0 };
  return { ...what, signed, signature: `sha256=${hex}` };
}

test("an acknowledged task is missing until its postback and its pingback are accepted", () => {
  const ledger = new Ledger(SECRET);
  ledger.acknowledge(ID);
  assert.equal(ledger.count.missing, 2);

  ledger.receive(postback(`{"id":"${ID}"}`), 500);
  assert.equal(ledger.count.missing, 2);
  ledger.receive(postback(`{"id":"${ID}"}`), 200);
  assert.equal(ledger.count.missing, 1);
  ledger.receive(pingback(`http://h/?id=${ID}`), 200);

  assert.equal(ledger.count.missing, 0);
  assert.equal(ledger.count.failed, 1);
  assert.deepEqual(ledger.faults, []);
});

test("a webhook that overtakes its acknowledgement counts", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback(`{"id":"${ID}"}`), 200);
  ledger.acknowledge(ID);

  assert.equal(ledger.count.missing, 1);
});

test("a repeated postback is noted, and must have the same body", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback(`{"id":"${ID}"}`), 200);
  ledger.receive(postback(`{"id":"${ID}"}`), 200);
  assert.equal(ledger.arrivals.length, 2);
  assert.deepEqual(ledger.faults, []);

  ledger.receive(postback(`{"id":"${ID}","result":2}`), 200);

  assert.match(ledger.faults[0] ?? "", /another content/);
});

test("a wrong signature is a fault", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback(`{"id":"${ID}"}`, "whsec_b3RoZXI="), 200);

  assert.match(ledger.faults[0] ?? "", /bad signature/);
});

test("another task's body or URL is a fault", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback('{"id":"01983c5e-7d5c-7000-8000-000000000002"}'), 200);
  ledger.receive(pingback("http://h/?id=01983c5e-7d5c-7000-8000-000000000002"), 200);

  assert.match(ledger.faults[0] ?? "", /postback is another task's/);
  assert.match(ledger.faults[1] ?? "", /pingback is another task's/);
});

test("one id for two acknowledged tasks is a fault", () => {
  const ledger = new Ledger(SECRET);
  ledger.acknowledge(ID);
  ledger.acknowledge(ID);

  assert.match(ledger.faults[0] ?? "", /acknowledged twice/);
});

test("a webhook of a cancelled task is a fault, whichever was first", () => {
  const [early, late] = [new Ledger(SECRET), new Ledger(SECRET)];
  early.receive(postback(`{"id":"${ID}"}`), 200);
  early.cancel(ID);
  late.cancel(ID);
  late.receive(pingback(`http://h/?id=${ID}`), 200);

  assert.match(early.faults[0] ?? "", /cancelled after its webhook/);
  assert.match(late.faults[0] ?? "", /pingback came after the cancelling/);
});

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { Ledger } from "../../scripts/crash/ledger.ts";
import type { ReceivedWebhook } from "../../scripts/webhook-receiver.ts";

const SECRET = "whsec_c2VjcmV0";
const ID = "01983c5e-7d5c-7000-8000-000000000001";

function postback(bodyText: string, secret = SECRET): ReceivedWebhook {
  const body = Buffer.from(bodyText);
  const hex = createHmac("sha256", secret).update(body).digest("hex");
  const what = { kind: "postback", taskId: ID, attempt: 1, head: "", receivedAt: 0 } as const;
  return { ...what, body, signed: body, signature: `sha256=${hex}` };
}

test("an acknowledged task is missing until its postback arrives", () => {
  const ledger = new Ledger(SECRET);
  ledger.acknowledge(ID);
  assert.equal(ledger.count.missing, 1);

  ledger.receive(postback(`{"id":"${ID}"}`));

  assert.equal(ledger.count.missing, 0);
  assert.deepEqual(ledger.faults, []);
});

test("a postback that overtakes its acknowledgement counts", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback(`{"id":"${ID}"}`));
  ledger.acknowledge(ID);

  assert.equal(ledger.count.missing, 0);
});

test("a repeated postback is counted, and must have the same body", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback(`{"id":"${ID}"}`));
  ledger.receive(postback(`{"id":"${ID}"}`));
  assert.equal(ledger.count.repeated, 1);
  assert.deepEqual(ledger.faults, []);

  ledger.receive(postback(`{"id":"${ID}","result":2}`));

  assert.match(ledger.faults[0] ?? "", /another body/);
});

test("a wrong signature is a fault", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback(`{"id":"${ID}"}`, "whsec_b3RoZXI="));

  assert.match(ledger.faults[0] ?? "", /bad signature/);
});

test("another task's body is a fault", () => {
  const ledger = new Ledger(SECRET);
  ledger.receive(postback('{"id":"01983c5e-7d5c-7000-8000-000000000002"}'));

  assert.match(ledger.faults[0] ?? "", /another task's body/);
});

test("one id for two acknowledged tasks is a fault", () => {
  const ledger = new Ledger(SECRET);
  ledger.acknowledge(ID);
  ledger.acknowledge(ID);

  assert.match(ledger.faults[0] ?? "", /acknowledged twice/);
});

test("a postback of a cancelled task is a fault, whichever was first", () => {
  const [early, late] = [new Ledger(SECRET), new Ledger(SECRET)];
  early.receive(postback(`{"id":"${ID}"}`));
  early.cancel(ID);
  late.cancel(ID);
  late.receive(postback(`{"id":"${ID}"}`));

  assert.match(early.faults[0] ?? "", /cancelled after its postback/);
  assert.match(late.faults[0] ?? "", /postback after the cancelling/);
});

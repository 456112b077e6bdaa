import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import type { ReceivedWebhook } from "../../scripts/kit/receiver.ts";
import { Ledger } from "../../scripts/soak/ledger.ts";

const SECRET = "whsec_c2VjcmV0";
const ANSWERED = {
  200: { status: 200, secret: SECRET },
  500: { status: 500, secret: SECRET },
} as const;
const TASK = { key: "key", expected: null };
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
  const ledger = new Ledger();
  ledger.owe(ID);
  assert.equal(ledger.missing, 2);

  ledger.receive(postback(`{"id":"${ID}"}`), ANSWERED[500]);
  assert.equal(ledger.missing, 2);
  ledger.receive(postback(`{"id":"${ID}"}`), ANSWERED[200]);
  assert.equal(ledger.missing, 1);
  ledger.receive(pingback(`http://h/?id=${ID}`), ANSWERED[200]);

  assert.equal(ledger.missing, 0);
  assert.deepEqual(
    ledger.arrivals.map(({ status }) => status),
    [500, 200, 200],
  );
  assert.deepEqual(ledger.faults, []);
});

test("a webhook that overtakes its acknowledgement counts", () => {
  const ledger = new Ledger();
  ledger.receive(postback(`{"id":"${ID}"}`), ANSWERED[200]);
  ledger.owe(ID);

  assert.equal(ledger.missing, 1);
});

test("a repeated postback is noted, and must have the same body", () => {
  const ledger = new Ledger();
  ledger.receive(postback(`{"id":"${ID}"}`), ANSWERED[200]);
  ledger.receive(postback(`{"id":"${ID}"}`), ANSWERED[200]);
  assert.equal(ledger.arrivals.length, 2);
  assert.deepEqual(ledger.faults, []);

  ledger.receive(postback(`{"id":"${ID}","result":2}`), ANSWERED[200]);

  assert.match(ledger.faults[0] ?? "", /another content/);
});

test("a wrong signature is a fault", () => {
  const ledger = new Ledger();
  ledger.receive(postback(`{"id":"${ID}"}`, "whsec_b3RoZXI="), ANSWERED[200]);

  assert.match(ledger.faults[0] ?? "", /bad signature/);
});

test("another task's body or URL is a fault", () => {
  const ledger = new Ledger();
  ledger.receive(postback('{"id":"01983c5e-7d5c-7000-8000-000000000002"}'), ANSWERED[200]);
  ledger.receive(pingback("http://h/?id=01983c5e-7d5c-7000-8000-000000000002"), ANSWERED[200]);

  assert.match(ledger.faults[0] ?? "", /postback is another task's/);
  assert.match(ledger.faults[1] ?? "", /pingback is another task's/);
});

test("one id for two acknowledged tasks is a fault", () => {
  const ledger = new Ledger();
  ledger.acknowledge(ID, TASK);
  ledger.acknowledge(ID, TASK);

  assert.match(ledger.faults[0] ?? "", /acknowledged twice/);
});

test("a webhook of a cancelled task is a fault, whichever was first", () => {
  const [early, late] = [new Ledger(), new Ledger()];
  early.receive(postback(`{"id":"${ID}"}`), ANSWERED[200]);
  early.cancel(ID, { sentAt: 0, acknowledgedAt: 1 });
  late.cancel(ID, { sentAt: 0, acknowledgedAt: 1 });
  late.receive(pingback(`http://h/?id=${ID}`), ANSWERED[200]);

  assert.match(early.faults[0] ?? "", /cancelled after its webhook/);
  assert.match(late.faults[0] ?? "", /pingback came after the cancelling/);
});

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { describe, test } from "node:test";

import type { ReceivedWebhook } from "../../scripts/kit/receiver.ts";
import { LeaseLedger, Ledger } from "../../scripts/soak/ledger.ts";

const SECRET = "whsec_c2VjcmV0";
const ID = "01983c5e-7d5c-7000-8000-000000000001";
const OTHER_ID = ID.replace(/1$/, "2");
const answered = (status: 200 | 500) => ({ status, secret: SECRET });

function webhook(signed: Buffer, secret: string) {
  const hex = createHmac("sha256", secret).update(signed).digest("hex");
  const facts = { taskId: ID, attempt: 1, head: "", receivedAt: 0 };
  return { ...facts, signed, signature: `sha256=${hex}` };
}

function postback(text = `{"id":"${ID}"}`, secret = SECRET): ReceivedWebhook {
  const body = Buffer.from(text);
  return { ...webhook(body, secret), kind: "postback", body };
}

function pingback(id = ID): ReceivedWebhook {
  const signed = Buffer.from(`http://h/?id=${id}`);
  return { ...webhook(signed, SECRET), kind: "pingback", body: Buffer.alloc(0) };
}

test("an acknowledged task is missing until its postback and its pingback are accepted", () => {
  const ledger = new Ledger();
  // This postback arrives before the acknowledgement.
  ledger.receive(postback(), answered(500));
  ledger.owe(ID);
  assert.equal(ledger.missing, 2);
  ledger.receive(postback(), answered(200));
  assert.equal(ledger.missing, 1);
  ledger.receive(pingback(), answered(200));

  assert.equal(ledger.missing, 0);
  const statuses = ledger.arrivals.map(({ status }) => status);
  assert.deepEqual([statuses, ledger.faults], [[500, 200, 200], []]);
});

test("a repeated postback with the same body is an arrival and no fault", () => {
  const ledger = new Ledger();
  ledger.receive(postback(), answered(200));
  ledger.receive(postback(), answered(200));
  assert.deepEqual([ledger.arrivals.length, ledger.faults], [2, []]);
});

const receive =
  (...webhooks: readonly ReceivedWebhook[]) =>
  (ledger: Ledger): void => {
    for (const each of webhooks) ledger.receive(each, answered(200));
  };
const cancel = (ledger: Ledger): void => ledger.cancel(ID, { sentAt: 0, acknowledgedAt: 1 });
const acknowledge = (ledger: Ledger): void =>
  ledger.acknowledge(ID, { key: "key", expected: null });

const FAULTS: Readonly<Record<string, [steps: readonly ((ledger: Ledger) => void)[], RegExp]>> = {
  "a repeated postback with another body": [
    [receive(postback(), postback(`{"id":"${ID}","result":2}`))],
    /another content/,
  ],
  "a wrong signature": [[receive(postback(undefined, "whsec_b3RoZXI="))], /bad signature/],
  "the body of another task": [[receive(postback(`{"id":"${OTHER_ID}"}`))], /another task/],
  "the URL of another task": [[receive(pingback(OTHER_ID))], /another task/],
  "one id for two acknowledged tasks": [[acknowledge, acknowledge], /acknowledged twice/],
  "a cancelling after a webhook": [[receive(postback()), cancel], /cancelled after its webhook/],
  "a webhook after a cancelling": [[cancel, receive(pingback())], /after the cancelling/],
};
for (const [name, [steps, fault]] of Object.entries(FAULTS)) {
  test(`the ledger records ${name} as a fault`, () => {
    const ledger = new Ledger();
    for (const step of steps) step(ledger);
    assert.match(ledger.faults.join("\n"), fault);
    assert.equal(ledger.faults.length, 1);
  });
}

const TASK = { id: "task", type: "work", leaseId: "a", expiresAt: 3000 };

/** A ledger with one claim: the worker `w` has the lease `a`. */
function claimedLedger(whole = new Ledger(), type = "work"): LeaseLedger {
  const ledger = new LeaseLedger(whole);
  ledger.take("w", { kind: "claiming", number: 0, at: 990, types: [type] });
  ledger.take("w", { kind: "claimed", number: 0, at: 1010, tasks: [TASK] });
  return ledger;
}

describe("the ledger of leases", () => {
  test("returns the history of a task, with the times of requests and responses", () => {
    const whole = new Ledger();
    const ledger = claimedLedger(whole);
    const items = [{ id: "task", leaseId: "a", result: "1" }];
    ledger.take("w", { kind: "asking", number: 1, at: 1500, what: "complete", items });
    ledger.take("v", { kind: "asking", number: 1, at: 1600, what: "release", items });
    ledger.take("w", { kind: "answered", number: 1, at: 1520, outcomes: ["ok"] });
    whole.cancel("task", { sentAt: 1700, acknowledgedAt: null });

    const common = { leaseId: "a", result: "1" };
    assert.partialDeepStrictEqual(ledger.history("task"), {
      claims: [{ leaseId: "a", sentAt: 990, answeredAt: 1010, expiresAt: 3000 }],
      asks: [
        { what: "complete", ...common, sentAt: 1500, answeredAt: 1520, outcome: "ok" },
        { what: "release", ...common, sentAt: 1600, answeredAt: null, outcome: null },
      ],
      cancel: { sentAt: 1700, acknowledgedAt: null },
    });
    assert.deepEqual([[...whole.finished], ledger.count.ok], [[["task", "1"]], 1]);
  });

  test("lists the claims that a killed process or a broken connection left without a response", () => {
    const ledger = claimedLedger();
    ledger.take("w", { kind: "claiming", number: 1, at: 2000, types: ["work"] });
    ledger.take("v", { kind: "claiming", number: 1, at: 2100, types: ["brief"] });
    ledger.take("v", { kind: "unclaimed", number: 1, at: 2200 });
    ledger.gone("w", 2300);

    assert.deepEqual(
      ledger.lostClaims.map(({ types, from }) => [...types, from]),
      [
        ["brief", 2100],
        ["work", 2000],
      ],
    );
    const [broken, killed] = ledger.lostClaims.map(({ to }) => to);
    assert(Number(broken) >= 2200 && Number(killed) >= 2300);
  });

  test("settles a task once, and again when it has changed", () => {
    const ledger = claimedLedger();
    const settled = (before: number): number => [...ledger.settled(before)].length;

    assert.deepEqual([settled(1000), settled(2000), settled(2000)], [0, 1, 0]);
    const items = [{ id: "task", leaseId: "a" }];
    ledger.take("w", { kind: "asking", number: 1, at: 1500, what: "release", items });
    assert.equal(settled(2000), 1);
  });

  test("records a task of another type, and the faults that processes report", () => {
    const ledger = claimedLedger(new Ledger(), "brief");
    ledger.take("w", { kind: "fault", text: "complete: 500" });

    const [type, reported, ...others] = ledger.faults;
    assert.match(type ?? "", /another type/);
    assert.deepEqual([reported, others], ["complete: 500", []]);
  });
});

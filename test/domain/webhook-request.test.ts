import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { taskEnvelope } from "../../src/domain/task/envelope.ts";
import type { Task } from "../../src/domain/task/task.ts";
import {
  signedMessage,
  webhookId,
  webhookRequest,
  type WebhookFacts,
} from "../../src/domain/webhook/webhook-request.ts";

const CREATED = Date.parse("2030-01-31T09:00:00.000Z");
const SECRET = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const NEXT = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;

const TASK: Task = {
  id: "018e2f1c-0a00-7abc-8def-0123456789ab",
  state: "completed",
  statusCode: 20000,
  statusMessage: null,
  type: "echo",
  createdAt: CREATED,
  startedAt: CREATED + 5,
  completedAt: CREATED + 1234,
  expiresAt: CREATED + 1234 + 30 * 24 * 3600 * 1000,
  runs: 1,
  dataText: `{"type":"echo","tag":"ü 😀"}`,
  inputText: `{"n":12345678901234567890.10}`,
  resultText: `"\\ud800 ü 😀"`,
  errorText: null,
};

function facts(overrides: Partial<WebhookFacts> = {}): WebhookFacts {
  return {
    kind: "postback",
    url: "https://a.example/hook?x=%C3%BC",
    task: TASK,
    number: 1,
    startedAt: CREATED + 5999,
    webhookSecret: SECRET,
    webhookSecretNext: null,
    traceText: null,
    ...overrides,
  };
}

// Computed independently of the product's functions.
function hex(secret: string, message: string): string {
  return `sha256=${createHmac("sha256", Buffer.from(secret)).update(message).digest("hex")}`;
}

function standard(secret: string, message: string): string {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  return `v1,${createHmac("sha256", key).update(message).digest("base64")}`;
}

const SECONDS = Math.floor((CREATED + 5999) / 1000);

test("a postback is a POST of the task's envelope, signed over its bytes", () => {
  const { method, headers, body } = webhookRequest(facts());

  const envelope = taskEnvelope(TASK);
  const id = `${TASK.id}-postback`;
  assert.equal(method, "POST");
  assert.equal(body, envelope);
  assert.deepEqual(headers, {
    "content-type": "application/json",
    "user-agent": "postbackd-webhooks/1",
    "x-signature": hex(SECRET, envelope),
    "x-attempt": "1",
    "webhook-id": id,
    "webhook-timestamp": String(SECONDS),
    "webhook-signature": standard(SECRET, `${id}.${SECONDS}.${envelope}`),
  });
});

test("a pingback is a GET without a body: X-Signature signs its URL, webhook-signature the empty body", () => {
  const given = facts({ kind: "pingback" });
  const { method, headers, body } = webhookRequest(given);

  const id = `${TASK.id}-pingback`;
  assert.equal(method, "GET");
  assert.equal(body, null);
  assert.deepEqual(headers, {
    "user-agent": "postbackd-webhooks/1",
    "x-signature": hex(SECRET, given.url),
    "x-attempt": "1",
    "webhook-id": id,
    "webhook-timestamp": String(SECONDS),
    "webhook-signature": standard(SECRET, `${id}.${SECONDS}.`),
  });
});

for (const kind of ["postback", "pingback"] as const) {
  test(`a ${kind} is signed with both secrets during a rotation`, () => {
    const given = facts({ kind, webhookSecretNext: NEXT });
    const { headers, body } = webhookRequest(given);

    const message = signedMessage(given);
    const signed = `${webhookId(TASK.id, kind)}.${SECONDS}.${body ?? ""}`;
    assert.equal(headers["x-signature"], hex(SECRET, message));
    assert.equal(headers["x-signature-next"], hex(NEXT, message));
    assert.equal(
      headers["webhook-signature"],
      `${standard(SECRET, signed)} ${standard(NEXT, signed)}`,
    );
  });

  test(`attempts of a ${kind} differ in number, time and webhook-signature alone`, () => {
    const first = webhookRequest(facts({ kind }));
    const second = webhookRequest(facts({ kind, number: 2, startedAt: CREATED + 66_000 }));

    const changed = Object.keys(first.headers).filter(
      (name) => first.headers[name] !== second.headers[name],
    );
    assert.deepEqual(changed, ["x-attempt", "webhook-timestamp", "webhook-signature"]);
    assert.equal(second.headers["x-attempt"], "2");
    assert.equal(second.headers["webhook-timestamp"], String(CREATED / 1000 + 66));
    assert.equal(second.body, first.body);
  });
}

test("the signed time is the start of the attempt, rounded down to a second", () => {
  for (const [startedAt, seconds] of [
    [CREATED, 0],
    [CREATED + 999, 0],
    [CREATED + 1000, 1],
  ] as const) {
    const { headers } = webhookRequest(facts({ startedAt }));
    assert.equal(Number(headers["webhook-timestamp"]), CREATED / 1000 + seconds);
  }
});

test("headers are printable ASCII without secrets, for any task", () => {
  for (const kind of ["postback", "pingback"] as const) {
    const { headers } = webhookRequest(facts({ kind, webhookSecretNext: NEXT }));
    for (const value of Object.values(headers)) {
      assert.match(value, /^[\x20-\x7e]+$/);
      assert.ok(!value.includes("whsec_"));
    }
  }
});

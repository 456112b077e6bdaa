import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { verify } from "@octokit/webhooks-methods";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

import { type ReceivedRequest, type Receiver, startReceiver } from "../helpers/receiver.ts";
import {
  type Case,
  type Deliveries,
  type Kind,
  MATRIX,
  PHASES,
  type Phase,
  type Signers,
  arrivalOf,
  startDeliveries,
  taskOf,
} from "./deliveries.ts";
import { OWN_ADDRESS, canListen } from "./peer-process.ts";

/** A delivery as it arrived. */
interface Captured {
  readonly name: string;
  readonly phase: Phase;
  readonly signers: Signers;
  readonly request: ReceivedRequest;
  /** The bytes that X-Signature signs, rebuilt from the request. */
  readonly message: string;
}

const KINDS = ["postback", "pingback"] as const;

test("libraries of others judge every delivery as it arrived", { timeout: 60_000 }, async (t) => {
  const deliveries = await startDeliveries(t);
  const all = await captureAll(t, deliveries);
  const { secret: otherSecret } = deliveries.stranger;

  await t.test("X-Signature-Next exists exactly while the secret rotates", () => {
    for (const { phase, request } of all) {
      const count = phase === "rotating" ? 2 : 1;
      assert.equal(request.headers["webhook-signature"]?.split(" ").length, count);
      assert.equal(request.headers["x-signature-next"] !== undefined, phase === "rotating");
    }
  });

  await t.test("@octokit/webhooks-methods accepts X-Signature and X-Signature-Next", async () => {
    for (const { name, signers, message, request } of all) {
      const { "x-signature": own = "", "x-signature-next": next = "" } = request.headers;
      assert.ok(await verify(signers.current, message, own), name);
      assert.ok(!(await verify(signers.current, `${message} `, own)), name);
      assert.ok(!(await verify(otherSecret, message, own)), name);
      if (signers.next !== null) assert.ok(await verify(signers.next, message, next), name);
    }
  });

  await t.test("standardwebhooks accepts webhook-signature by each secret that signs", () => {
    for (const { name, signers, request } of all) {
      const { rawBody: body, headers } = request;
      for (const secret of [signers.current, signers.next]) {
        if (secret !== null) assert.ok(isAccepted(secret, { headers, body }), name);
      }
      const otherId = { ...headers, "webhook-id": `${headers["webhook-id"]}x` };
      const longer = Buffer.concat([body, Buffer.from(" ")]);
      assert.ok(!isAccepted(otherSecret, { headers, body }), name);
      assert.ok(!isAccepted(signers.current, { headers, body: longer }), name);
      assert.ok(!isAccepted(signers.current, { headers: otherId, body }), name);
    }
  });
});

async function captureAll(t: TestContext, deliveries: Deliveries): Promise<readonly Captured[]> {
  const receiver = await startReceiver(t, { host: OWN_ADDRESS });
  const hasDefaultPort = await canListen({ host: OWN_ADDRESS, port: 80 });
  if (!hasDefaultPort) t.diagnostic("port 80 is not available: 'default port' is left out");
  const atDefaultPort = hasDefaultPort
    ? await startReceiver(t, { host: OWN_ADDRESS, port: 80 })
    : null;
  const captured: Captured[] = [];
  for (const phase of PHASES) {
    const signers = await deliveries.enter(phase);
    const pending = MATRIX.map(async (each) => {
      const to = each.isAtDefaultPort === true ? atDefaultPort : receiver;
      return to === null ? [] : capture(each, { to, deliveries });
    });
    const arrived = (await Promise.all(pending)).flat();
    captured.push(...arrived.map((each) => ({ ...each, phase, signers })));
  }
  return captured;
}

/** Has one case delivered, and checks URL, method and body of both requests. */
async function capture(
  each: Case,
  { to, deliveries }: { readonly to: Receiver; readonly deliveries: Deliveries },
): Promise<readonly Pick<Captured, "name" | "request" | "message">[]> {
  const place = { address: to.host, port: to.port };
  const id = await deliveries.post(taskOf(each, place));
  return Promise.all(
    KINDS.map(async (kind) => {
      const request = await requestWith(to, `${id}-${kind}`);
      const { method, url: target, headers, rawBody } = request;
      assert.deepEqual({ host: headers["host"], target }, arrivalOf(each, { kind, id, place }));
      assert.equal(method, kind === "postback" ? "POST" : "GET");
      if (kind === "pingback") assert.equal(rawBody.length, 0);
      return { name: `${each.name} ${kind}`, request, message: messageOf(kind, request) };
    }),
  );
}

async function requestWith(receiver: Receiver, webhookId: string): Promise<ReceivedRequest> {
  for (;;) {
    const found = receiver.requests.find(({ headers }) => headers["webhook-id"] === webhookId);
    if (found !== undefined) return found;
    await receiver.waitFor(receiver.requests.length + 1);
  }
}

function messageOf(kind: Kind, { rawBody, headers, url }: ReceivedRequest): string {
  return kind === "postback" ? rawBody.toString() : `http://${headers["host"]}${url}`;
}

/** Whether the reference library of Standard Webhooks accepts a delivery with this secret. */
function isAccepted(
  secret: string,
  { headers, body }: { readonly headers: ReceivedRequest["headers"]; readonly body: Buffer },
): boolean {
  try {
    new Webhook(secret).verify(body, { ...headers });
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

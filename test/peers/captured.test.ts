import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { startReceiver } from "../helpers/receiver.ts";
import type { ReceivedRequest, Receiver } from "../helpers/receiver.ts";
import { PHASES, startDeliveries } from "./deliveries.ts";
import type { Deliveries, Phase, Signers } from "./deliveries.ts";
import { arrivalOf, MATRIX, taskOf } from "./matrix.ts";
import type { Case, Kind, Place } from "./matrix.ts";
import { OCTOKIT } from "./octokit.ts";
import { OPENSSL } from "./openssl.ts";
import { areAtHand, canListen, OWN_ADDRESS } from "./peer-process.ts";
import { PYTHON } from "./python.ts";
import type { Claim } from "./signature-peer.ts";
import { isAccepted } from "./standard-webhooks.ts";

/** A delivery as it arrived. */
interface Captured {
  readonly each: Case;
  readonly kind: Kind;
  readonly id: string;
  readonly place: Place;
  readonly request: ReceivedRequest;
  /** What its X-Signature has to be over, taken from what arrived. */
  readonly message: Buffer;
}

interface Capture {
  readonly phase: Phase;
  readonly signers: Signers;
  readonly all: readonly Captured[];
}

const KINDS = ["postback", "pingback"] as const;

test("deliveries are judged by what arrived", { timeout: 60_000 }, async (t) => {
  const deliveries = await startDeliveries(t);
  const captures = await captureAll(t, deliveries);

  await t.test("each arrives at its own URL", () => {
    for (const { all } of captures) for (const captured of all) assertArrival(captured);
  });

  await t.test("while the secret rotates, and only then, there is a next signature", () => {
    for (const { phase, all } of captures) {
      const count = phase === "rotating" ? 2 : 1;
      for (const { request } of all) {
        assert.equal(request.headers["webhook-signature"]?.split(" ").length, count);
        assert.equal(request.headers["x-signature-next"] !== undefined, phase === "rotating");
      }
    }
  });

  for (const peer of [OCTOKIT, PYTHON, OPENSSL]) {
    await t.test(`${peer.name} accepts every signature, and none over anything else`, async (t) => {
      if (!areAtHand(t, peer.programs)) return;
      for (const { phase, signers, all } of captures) {
        const right = all.flatMap((each) => claimsOf(each, signers));
        const wrong = all.flatMap((each) => wrongClaims(each, { signers, deliveries, phase }));
        assert.deepEqual(await peer.judge(right), Array(right.length).fill(true), phase);
        assert.deepEqual(await peer.judge(wrong), Array(wrong.length).fill(false), phase);
      }
    });
  }

  await t.test(
    "standardwebhooks accepts every delivery by each secret that signs, and by no other",
    () => {
      for (const { phase, signers, all } of captures) {
        for (const captured of all) judgeByStandard(captured, { signers, deliveries, phase });
      }
    },
  );
});

async function captureAll(t: TestContext, deliveries: Deliveries): Promise<readonly Capture[]> {
  const receiver = await startReceiver(t, { host: OWN_ADDRESS });
  const hasDefaultPort = await canListen({ host: OWN_ADDRESS, port: 80 });
  if (!hasDefaultPort) t.diagnostic("left out: 'default port', for port 80 cannot be listened on");
  const atDefaultPort = hasDefaultPort
    ? await startReceiver(t, { host: OWN_ADDRESS, port: 80 })
    : null;
  const captures: Capture[] = [];
  for (const phase of PHASES) {
    const signers = await deliveries.enter(phase);
    const pending = MATRIX.flatMap((each) => {
      const to = each.isAtDefaultPort === true ? atDefaultPort : receiver;
      return to === null ? [] : [capture(each, { to, deliveries })];
    });
    captures.push({ phase, signers, all: (await Promise.all(pending)).flat() });
  }
  return captures;
}

async function capture(
  each: Case,
  { to, deliveries }: { readonly to: Receiver; readonly deliveries: Deliveries },
): Promise<readonly Captured[]> {
  const place = { address: to.host, port: to.port };
  const id = await deliveries.post(taskOf(each, place));
  return Promise.all(
    KINDS.map(async (kind) => {
      const request = await requestWith(to, `${id}-${kind}`);
      return { each, kind, id, place, request, message: messageOf(kind, request) };
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

function messageOf(kind: Kind, { rawBody, headers, url }: ReceivedRequest): Buffer {
  return kind === "postback" ? rawBody : Buffer.from(`http://${headers["host"]}${url}`);
}

function assertArrival({ each, kind, id, place, request }: Captured): void {
  const { method, url: target, headers, rawBody } = request;
  assert.deepEqual({ host: headers["host"], target }, arrivalOf(each, { kind, id, place }));
  assert.equal(method, kind === "postback" ? "POST" : "GET");
  if (kind === "pingback") assert.equal(rawBody.length, 0);
  if (kind === "postback" && each.name === "1 MB body") assert.ok(rawBody.length > 1_000_000);
}

function claimsOf({ message, request }: Captured, { current, next }: Signers): readonly Claim[] {
  const { "x-signature": signature = "", "x-signature-next": signatureNext = "" } = request.headers;
  const claims = [{ secret: current, message, signature }];
  if (next !== null) claims.push({ secret: next, message, signature: signatureNext });
  return claims;
}

interface Circumstances {
  readonly signers: Signers;
  readonly deliveries: Deliveries;
  readonly phase: Phase;
}

/** The claims with a byte changed, with a digit changed, and with the secrets that should not fit. */
function wrongClaims(captured: Captured, circumstances: Circumstances): readonly Claim[] {
  return claimsOf(captured, circumstances.signers).flatMap((claim) => {
    const changed = Buffer.from(claim.message);
    // The last letter or digit: of a body near its end, of a URL in its path or query.
    const at = changed.toString("latin1").search(/[0-9a-z][^0-9a-z]*$/i);
    changed[at] = (changed[at] ?? 0) ^ 1;
    const signature = claim.signature.replace(/.$/, (digit) => (digit === "0" ? "1" : "0"));
    const others = otherSecrets(claim.secret, circumstances);
    return [
      { ...claim, message: changed },
      { ...claim, signature },
      ...others.map((secret) => ({ ...claim, secret })),
    ];
  });
}

function otherSecrets(
  right: string,
  { signers, deliveries, phase }: Circumstances,
): readonly string[] {
  const { account, stranger } = deliveries;
  const former = phase === "finished" ? [account.secret] : [];
  const own = [signers.current, signers.next].filter((each) => each !== null && each !== right);
  return [stranger.secret, ...former, ...own.flatMap((each) => each ?? [])];
}

function judgeByStandard({ request, each, kind }: Captured, circumstances: Circumstances): void {
  const { signers, deliveries, phase } = circumstances;
  const { headers, rawBody: body } = request;
  const label = `${each.name} ${kind}, ${phase}`;
  const right = [signers.current, signers.next].flatMap((secret) => secret ?? []);
  const wrong = [deliveries.stranger.secret];
  if (phase === "finished") wrong.push(deliveries.account.secret);
  for (const secret of right) assert.ok(isAccepted(secret, { headers, body }), label);
  for (const secret of wrong) assert.ok(!isAccepted(secret, { headers, body }), label);
  const [secret = ""] = right;
  const longer = Buffer.concat([body, Buffer.from(" ")]);
  const otherId = { ...headers, "webhook-id": `${headers["webhook-id"]}x` };
  assert.ok(!isAccepted(secret, { headers, body: longer }), `${label}: another body`);
  assert.ok(!isAccepted(secret, { headers: otherId, body }), `${label}: another id`);
}

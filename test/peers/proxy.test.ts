import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { setDefaultCACertificates } from "node:tls";

import { makeCertificate } from "../deliver/certificate.ts";
import { replay, withHeaders } from "./changes.ts";
import { startDeliveries } from "./deliveries.ts";
import { HAPROXY, HAPROXY_PROGRAM } from "./haproxy.ts";
import { arrivalOf, IDN_HOST_ENCODED, MATRIX, taskOf } from "./matrix.ts";
import type { Place } from "./matrix.ts";
import { NGINX_PROGRAM, startTlsProxy } from "./nginx.ts";
import { OCTOKIT } from "./octokit.ts";
import { areAtHand, canListen, OWN_ADDRESS } from "./peer-process.ts";
import type { PeerAddress } from "./peer-process.ts";
import { headerOf, startRelay } from "./relay.ts";
import type { Relay, WireRequest } from "./relay.ts";

const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const CERTIFICATE = makeCertificate({
  commonName: IDN_HOST_ENCODED,
  names: [IDN_HOST_ENCODED],
  addresses: [OWN_ADDRESS],
  issuer: AUTHORITY,
});
setDefaultCACertificates([AUTHORITY.cert]);

// daemon → nginx, which ends TLS → relay → HAProxy, which verifies by the headers that nginx set.
test("behind a proxy that ends TLS", { timeout: 60_000 }, async (t) => {
  if (!areAtHand(t, [NGINX_PROGRAM, HAPROXY_PROGRAM])) return;
  const deliveries = await startDeliveries(t);
  const signers = await deliveries.enter("normal");
  const haproxy = await HAPROXY.start(t, signers);
  const relay = await startRelay(t, { host: OWN_ADDRESS, port: 0, peer: haproxy });
  const { own, atDefaultPort } = await startProxies(t, relay);
  const pingbacks: WireRequest[] = [];

  for (const each of MATRIX) {
    await t.test(`${each.name}: postback and pingback are accepted`, async (t) => {
      const proxy = each.isAtDefaultPort === true ? atDefaultPort : own;
      if (proxy === null) return t.skip("port 443 cannot be listened on");
      const place: Place = { address: proxy.host, port: proxy.port };
      const id = await deliveries.post(taskOf(each, { ...place, scheme: "https" }));
      for (const kind of ["postback", "pingback"] as const) {
        const { request, status } = await relay.answered(`${id}-${kind}`);
        const arrived = { host: headerOf(request, "host"), target: request.target };
        assert.deepEqual(arrived, arrivalOf(each, { kind, id, place }));
        assert.equal(status, 200, kind);
        if (kind === "pingback") pingbacks.push(request);
      }
    });
  }

  await t.test(
    "a receiver has the signed URL from X-Forwarded-Proto, Host and target",
    async () => {
      const claims = pingbacks.map((request) => {
        const scheme = headerOf(request, "x-forwarded-proto");
        const message = Buffer.from(`${scheme}://${headerOf(request, "host")}${request.target}`);
        return { secret: signers.current, message, signature: headerOf(request, "x-signature") };
      });
      assert.ok(claims.length >= MATRIX.length - 1);
      assert.deepEqual(await OCTOKIT.judge(claims), Array(claims.length).fill(true));
    },
  );

  await t.test("another scheme, or none, is another URL", async () => {
    const [request] = pingbacks;
    assert.ok(request !== undefined);
    assert.equal(await replay(haproxy, request), 200);
    for (const scheme of ["http", null]) {
      const changed = withHeaders(request, { "x-forwarded-proto": () => scheme });
      assert.equal(await replay(haproxy, changed), 401);
    }
  });
});

interface Proxies {
  readonly own: PeerAddress;
  /** Null where port 443 is not ours to have. */
  readonly atDefaultPort: PeerAddress | null;
}

async function startProxies(t: TestContext, { port }: Relay): Promise<Proxies> {
  const setup = { upstream: { host: OWN_ADDRESS, port }, certificate: CERTIFICATE };
  const own = await startTlsProxy(t, setup);
  const hasDefaultPort = await canListen({ host: OWN_ADDRESS, port: 443 });
  return {
    own,
    atDefaultPort: hasDefaultPort ? await startTlsProxy(t, { ...setup, port: 443 }) : null,
  };
}

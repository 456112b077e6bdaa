import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setDefaultCACertificates } from "node:tls";

import { ROOT } from "../../scripts/manifest.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { findFreePort } from "../helpers/port.ts";
import {
  IDN_HOST_ENCODED,
  MATRIX,
  PHASES,
  type Signers,
  startDeliveries,
  taskOf,
} from "./deliveries.ts";
import { OWN_ADDRESS, type PeerAddress, areAtHand, canListen, startPeer } from "./peer-process.ts";

const HAPROXY = { program: "haproxy", debianPackage: "haproxy" };
const NGINX = { program: "nginx", debianPackage: "nginx" };

const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const CERTIFICATE = makeCertificate({
  commonName: IDN_HOST_ENCODED,
  names: [IDN_HOST_ENCODED],
  addresses: [OWN_ADDRESS],
  issuer: AUTHORITY,
});
setDefaultCACertificates([AUTHORITY.cert]);

test("HAProxy accepts deploy/haproxy.cfg", (t) => {
  if (!areAtHand(t, [HAPROXY])) return;
  const nodes = ["NODE_1", "NODE_2", "NODE_3"].map((name, i) => [name, `127.0.0.1:${9000 + i}`]);
  const env = { ...process.env, BIND: "127.0.0.1:8999", ...Object.fromEntries(nodes) };
  const args = ["-c", "-f", join(ROOT, "deploy", "haproxy.cfg")];
  const { status, stderr } = spawnSync("haproxy", args, { env, encoding: "utf8" });

  assert.equal(status, 0, stderr);
});

// daemon → nginx, which ends TLS → HAProxy, which verifies by X-Forwarded-Proto, Host and target.
test("HAProxy behind nginx accepts every delivery while a secret rotates, and none of another account", async (t) => {
  if (!areAtHand(t, [NGINX, HAPROXY])) return;
  const deliveries = await startDeliveries(t);
  const hasDefaultPort = await canListen({ host: OWN_ADDRESS, port: 443 });
  if (!hasDefaultPort) t.diagnostic("port 443 is not available: 'default port' is left out");
  const cases = MATRIX.filter((each) => each.isAtDefaultPort !== true || hasDefaultPort);
  const upstream = { host: OWN_ADDRESS, port: await findFreePort(OWN_ADDRESS) };
  const { host: address, port } = await startTlsProxy(t, upstream);
  if (hasDefaultPort) await startTlsProxy(t, upstream, 443);
  const tasks = cases.map((each) =>
    taskOf(each, { scheme: "https", address, port: each.isAtDefaultPort === true ? 443 : port }),
  );

  for (const phase of PHASES) {
    const signers = await deliveries.enter(phase);
    await t.test(phase, async (part) => {
      await startVerifier(part, upstream, signers);
      for (const [index, statuses] of (await deliveries.statuses(tasks)).entries())
        assert.deepEqual(statuses, { postback: 200, pingback: 200 }, cases[index]?.name);
      const foreign = await deliveries.statuses(tasks.slice(0, 1), deliveries.stranger);
      assert.deepEqual(foreign, [{ postback: 401, pingback: 401 }]);
    });
  }
});

/** HAProxy with its converter `hmac()`: over the body, or over the URL of X-Forwarded-Proto, Host, path and query. */
function startVerifier(t: TestContext, at: PeerAddress, signers: Signers): Promise<PeerAddress> {
  const files = { "haproxy.cfg": configuration(`${at.host}:${at.port}`, signers) };
  return startPeer(t, { ...at, files, command: ["haproxy", "-db", "-f", "haproxy.cfg"] });
}

// The buffer has to hold a whole request.
function configuration(bind: string, { current, next }: Signers): string {
  const nextRules =
    next === null
      ? "  http-request return status 401 if { req.hdr(x-signature-next) -m found }"
      : signatureRules("x-signature-next", next);
  return `
global
  maxconn 64
  tune.bufsize 4194304
defaults
  mode http
  option http-buffer-request
  timeout client 30s
  timeout connect 5s
  timeout server 30s
frontend deliveries
  bind ${bind}
  http-request set-var(txn.scheme) str(http)
  http-request set-var(txn.scheme) req.hdr(x-forwarded-proto) if { req.hdr(x-forwarded-proto) -m found }
  http-request set-var-fmt(txn.url) "%[var(txn.scheme)]://%[req.fhdr(host)]%[pathq]"
${signatureRules("x-signature", current)}
${nextRules}
  http-request return status 200
`;
}

function signatureRules(header: string, secret: string): string {
  // HAProxy takes keys in Base64; the key is the secret's own text.
  const made = `hmac(sha256,${Buffer.from(secret).toString("base64")}),hex,lower`;
  return `
  http-request set-var(txn.made) req.body,${made} if METH_POST
  http-request set-var(txn.made) var(txn.url),${made} if METH_GET
  http-request set-var-fmt(txn.wanted) "sha256=%[var(txn.made)]"
  http-request return status 401 unless { req.fhdr(${header}),secure_memcmp(txn.wanted) }
`;
}

/** Starts nginx as a proxy that ends TLS. It passes Host on and sets X-Forwarded-Proto. */
async function startTlsProxy(
  t: TestContext,
  upstream: PeerAddress,
  own?: number,
): Promise<PeerAddress> {
  const at = { host: OWN_ADDRESS, port: own ?? (await findFreePort(OWN_ADDRESS)) };
  const files = {
    "nginx.conf": proxyConfiguration(at, upstream),
    "cert.pem": CERTIFICATE.cert,
    "key.pem": CERTIFICATE.key,
  };
  const command = ["nginx", "-p", ".", "-e", "stderr", "-c", "nginx.conf"] as const;
  return startPeer(t, { ...at, files, command });
}

// Everything that nginx writes stays in its folder.
function proxyConfiguration({ host, port }: PeerAddress, upstream: PeerAddress): string {
  return `
daemon off;
master_process off;
pid nginx.pid;
events {}
http {
  access_log off;
  client_max_body_size 8m;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {
    listen ${host}:${port} ssl;
    ssl_certificate cert.pem;
    ssl_certificate_key key.pem;
    location / {
      proxy_pass http://${upstream.host}:${upstream.port};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
    }
  }
}
`;
}

import { findFreePort } from "../helpers/port.ts";
import type { Signers } from "./deliveries.ts";
import { OWN_ADDRESS, startPeer } from "./peer-process.ts";
import type { PeerProgram } from "./peer-process.ts";
import type { ServerPeer } from "./server-peer.ts";

export const HAPROXY_PROGRAM: PeerProgram = { program: "haproxy", debianPackage: "haproxy" };

/** HAProxy with its converter `hmac()`: over the body, or over the URL of X-Forwarded-Proto, Host, path and query. */
export const HAPROXY: ServerPeer = {
  name: "HAProxy",
  programs: [HAPROXY_PROGRAM],
  kinds: ["postback", "pingback"],
  async start(t, signers) {
    const at = { host: OWN_ADDRESS, port: await findFreePort(OWN_ADDRESS) };
    const files = { "haproxy.cfg": configuration(`${at.host}:${at.port}`, signers) };
    return startPeer(t, { ...at, files, command: ["haproxy", "-db", "-f", "haproxy.cfg"] });
  },
};

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

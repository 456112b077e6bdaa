import type { TestContext } from "node:test";

import type { Certificate } from "../deliver/certificate.ts";
import { findFreePort } from "../helpers/port.ts";
import type { Signers } from "./deliveries.ts";
import { OWN_ADDRESS, startPeer } from "./peer-process.ts";
import type { PeerAddress, PeerProgram } from "./peer-process.ts";
import type { ServerPeer } from "./server-peer.ts";

export const NGINX_PROGRAM: PeerProgram = { program: "nginx", debianPackage: "nginx" };

const NJS_MODULE = "/usr/lib/nginx/modules/ngx_http_js_module.so";
const COMMAND = ["nginx", "-p", ".", "-e", "stderr", "-c", "nginx.conf"] as const;

/** nginx with njs: a script that verifies with njs's own crypto module. */
export const NGINX: ServerPeer = {
  name: "nginx with njs",
  programs: [NGINX_PROGRAM, { program: NJS_MODULE, debianPackage: "libnginx-mod-http-js" }],
  kinds: ["postback", "pingback"],
  async start(t, signers) {
    const at = { host: OWN_ADDRESS, port: await findFreePort(OWN_ADDRESS) };
    const files = { "nginx.conf": verifierConfiguration(at), "verify.js": script(signers) };
    return startPeer(t, { ...at, files, command: COMMAND });
  },
};

export interface TlsProxySetup {
  readonly upstream: PeerAddress;
  readonly certificate: Certificate;
  /** A free one unless told. */
  readonly port?: number;
}

/** Starts nginx as a proxy that ends TLS: behind it stand the Host it was asked for, and X-Forwarded-Proto. */
export async function startTlsProxy(t: TestContext, setup: TlsProxySetup): Promise<PeerAddress> {
  const at = { host: OWN_ADDRESS, port: setup.port ?? (await findFreePort(OWN_ADDRESS)) };
  const files = {
    "nginx.conf": proxyConfiguration(at, setup.upstream),
    "cert.pem": setup.certificate.cert,
    "key.pem": setup.certificate.key,
  };
  return startPeer(t, { ...at, files, command: COMMAND });
}

// Everything it writes stays in its folder; bodies stay in memory, where the script finds them.
function configuration(head: string, server: string): string {
  return `
${head}
daemon off;
master_process off;
pid nginx.pid;
events {}
http {
  access_log off;
  client_max_body_size 8m;
  client_body_buffer_size 8m;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  ${server}
}
`;
}

function verifierConfiguration({ host, port }: PeerAddress): string {
  return configuration(
    `load_module ${NJS_MODULE};`,
    `js_path ".";
  js_import verify.js;
  server {
    listen ${host}:${port};
    location / { js_content verify.answer; }
  }`,
  );
}

function proxyConfiguration({ host, port }: PeerAddress, upstream: PeerAddress): string {
  return configuration(
    "",
    `server {
    listen ${host}:${port} ssl;
    ssl_certificate cert.pem;
    ssl_certificate_key key.pem;
    location / {
      proxy_pass http://${upstream.host}:${upstream.port};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
    }
  }`,
  );
}

function script({ current, next }: Signers): string {
  return `
import crypto from "crypto";

function isSigned(r, header, secret) {
  const v = r.variables;
  const url = v.scheme + "://" + v.http_host + v.request_uri;
  const message = r.method === "POST" ? r.requestBuffer : url;
  const made = crypto.createHmac("sha256", secret).update(message).digest("hex");
  return r.headersIn[header] === "sha256=" + made;
}

function answer(r) {
  const next = ${JSON.stringify(next)};
  const isNextRight =
    next === null ? r.headersIn["X-Signature-Next"] === undefined : isSigned(r, "X-Signature-Next", next);
  r.return(isSigned(r, "X-Signature", ${JSON.stringify(current)}) && isNextRight ? 200 : 401);
}

export default { answer };
`;
}

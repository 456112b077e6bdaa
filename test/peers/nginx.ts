import type { TestContext } from "node:test";

import type { Certificate } from "../helpers/certificate.ts";
import { findFreePort } from "../helpers/port.ts";
import { OWN_ADDRESS, startPeer } from "./peer-process.ts";
import type { PeerAddress, PeerProgram } from "./peer-process.ts";

export const NGINX_PROGRAM: PeerProgram = { program: "nginx", debianPackage: "nginx" };

const COMMAND = ["nginx", "-p", ".", "-e", "stderr", "-c", "nginx.conf"] as const;

export interface TlsProxySetup {
  readonly upstream: PeerAddress;
  readonly certificate: Certificate;
  /** A free port by default. */
  readonly port?: number;
}

/** Starts nginx as a proxy that ends TLS. It passes Host on and sets X-Forwarded-Proto. */
export async function startTlsProxy(t: TestContext, setup: TlsProxySetup): Promise<PeerAddress> {
  const at = { host: OWN_ADDRESS, port: setup.port ?? (await findFreePort(OWN_ADDRESS)) };
  const files = {
    "nginx.conf": proxyConfiguration(at, setup.upstream),
    "cert.pem": setup.certificate.cert,
    "key.pem": setup.certificate.key,
  };
  return startPeer(t, { ...at, files, command: COMMAND });
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

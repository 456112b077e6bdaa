import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { runProgram, temporaryFolder } from "../helpers/program.ts";
import { NGINX_PROGRAM } from "./nginx.ts";
import { areAtHand, findProgram, OWN_ADDRESS, startPeer } from "./peer-process.ts";
import {
  exerciseSite,
  freePorts,
  SITE_CERTIFICATE,
  SITE_NAME,
  siteFile,
  type SitePorts,
} from "./site.ts";

// The part around it in a distribution's nginx.conf. Everything that nginx writes stays in its folder.
const MAIN = `
daemon off;
master_process off;
pid nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  include site.conf;
}
`;

const COMMAND = ["nginx", "-p", ".", "-e", "stderr", "-c", "nginx.conf"] as const;

/** Everything that nginx reads, by name. */
function siteFiles(upstream: string, ports: SitePorts): Record<string, string> {
  return {
    "nginx.conf": MAIN,
    "cert.pem": SITE_CERTIFICATE.cert,
    "key.pem": SITE_CERTIFICATE.key,
    "site.conf": siteFile("nginx.conf", {
      "server 127.0.0.1:8787;": `server ${upstream};`,
      "listen 80;": `listen ${OWN_ADDRESS}:${ports.plain};`,
      "listen 443 ssl;": `listen ${OWN_ADDRESS}:${ports.tls} ssl;`,
      [`/etc/letsencrypt/live/${SITE_NAME}/fullchain.pem`]: "cert.pem",
      [`/etc/letsencrypt/live/${SITE_NAME}/privkey.pem`]: "key.pem",
    }),
  };
}

test("nginx -t accepts deploy/nginx.conf without a warning", async (t) => {
  if (!areAtHand(t, [NGINX_PROGRAM])) return;
  const files = siteFiles("127.0.0.1:8787", await freePorts());
  const cwd = temporaryFolder(t);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(cwd, name), content);
  const [name, ...args] = COMMAND;

  const command = [findProgram(name) ?? name, "-t", ...args] as const;
  const { code, stderr } = await runProgram(t, [], { command, cwd });

  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /\[(warn|error|emerg)\]/);
});

exerciseSite({
  file: "nginx.conf",
  program: NGINX_PROGRAM,
  async start(t, upstream, ports) {
    const at = { host: OWN_ADDRESS, port: ports.tls };
    await startPeer(t, { ...at, files: siteFiles(upstream, ports), command: COMMAND });
  },
});

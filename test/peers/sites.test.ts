import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";
import { exchange } from "../helpers/raw-http.ts";
import { EventReader } from "../http/event-stream.ts";
import {
  OWN_ADDRESS,
  type PeerProgram,
  areAtHand,
  findProgram,
  startPeer,
} from "./peer-process.ts";

/** The name that the files of deploy/ have for the site. */
const SITE_NAME = "postbackd.example.com";

const SITE_CERTIFICATE = makeCertificate({ commonName: SITE_NAME, names: [SITE_NAME] });

/** A file of deploy/ with the addresses and paths of a test. */
function siteFile(name: string, places: Readonly<Record<string, string>>): string {
  return Object.entries(places).reduce(
    (all, [from, to]) => {
      assert.equal(all.split(from).length, 2, `deploy/${name} has '${from}' once`);
      return all.replace(from, () => to);
    },
    readFileSync(join(ROOT, "deploy", name), "utf8"),
  );
}

/** A proxy in front of a daemon, configured by a file of deploy/. */
interface SiteServer {
  /** The file, below deploy/. */
  readonly file: string;
  readonly program: PeerProgram;
  /** Starts it in front of `upstream`, for the site's name at OWN_ADDRESS. */
  start(t: TestContext, upstream: string, ports: SitePorts): Promise<void>;
}

/** Ports of a site, both free. */
interface SitePorts {
  readonly tls: number;
  readonly plain: number;
}

interface Asked {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

async function startSite(t: TestContext, server: SiteServer, upstream: string) {
  const ports = await freePorts();
  await server.start(t, upstream, ports);
  const ask = ({ path, method = "GET", headers = {}, body }: Asked) => {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const tls = { ca: SITE_CERTIFICATE.cert, servername: SITE_NAME };
    const to = { host: OWN_ADDRESS, port: ports.tls, path, method };
    const sent = { ...to, headers: { host: SITE_NAME, ...headers } };
    const asked = request({ ...sent, ...tls }, resolve).once("error", reject);
    t.after(() => void asked.destroy());
    asked.end(body);
    return promise;
  };
  const call = async (asked: Asked) => {
    const answer = await ask(asked);
    // The contract has this shape.
    const fields = JSON.parse(await text(answer)) as {
      readonly status_code: number;
      readonly tasks?: readonly { readonly id: string; readonly state: string }[];
    };
    return { status: answer.statusCode, retryAfter: answer.headers["retry-after"], fields };
  };
  return { ask, call, plain: `http://${OWN_ADDRESS}:${ports.plain}` };
}

/** Two ports at OWN_ADDRESS. */
async function freePorts(): Promise<SitePorts> {
  return { tls: await findFreePort(OWN_ADDRESS), plain: await findFreePort(OWN_ADDRESS) };
}

/** The tests of every such server. */
function exerciseSite(server: SiteServer): void {
  const { file, program } = server;

  test(`${program.program} with deploy/${file} passes a post, a wait and the stream of changes`, async (t) => {
    if (!areAtHand(t, [program])) return;
    const daemon = await startTestDaemon(t, { toml: 'trusted_proxies = ["127.0.0.0/8"]\n' });
    const { ask, call, plain } = await startSite(t, server, new URL(daemon.url).host);
    const authorization = `Bearer ${daemon.account.key}`;
    const headers = { authorization, "content-type": "application/json" };

    const stream = await ask({ path: "/v1/events", headers: { authorization } });
    assert.equal(stream.statusCode, 200);
    const events = new EventReader(Readable.toWeb(stream) as ReadableStream<Uint8Array>);
    assert.notEqual(await events.block(), null);

    const post = { method: "POST", path: "/v1/tasks/task_post", headers };
    const posted = await call({ ...post, body: '[{"input": 1}]' });
    const [task] = posted.fields.tasks ?? [];
    assert.deepEqual([posted.status, task?.state], [200, "queued"]);
    const path = `/v1/tasks/task_get/${task?.id}`;
    const ended = await call({ path, headers: { authorization, prefer: "wait=60" } });
    assert.equal(ended.fields.tasks?.[0]?.state, "completed");
    assert.notEqual(await events.block(), null);

    const large = await call({ ...post, body: `[{"input": "${"x".repeat(6_000_000)}"}]` });
    assert.deepEqual([large.status, large.fields.status_code], [413, 41300]);
    assert.equal(large.retryAfter, undefined);
    const inTheClear = { headers: [`Host: ${SITE_NAME}`], host: false } as const;
    assert.equal((await exchange(plain, inTheClear)).status, 403);
  });

  test(`deploy/${file} responds 503 with code 50300 while no daemon listens`, async (t) => {
    if (!areAtHand(t, [program])) return;
    const upstream = `${OWN_ADDRESS}:${await findFreePort(OWN_ADDRESS)}`;
    const { call } = await startSite(t, server, upstream);

    const { status, retryAfter, fields } = await call({ path: "/v1/tasks" });

    assert.deepEqual([status, retryAfter, fields.status_code], [503, "1", 50300]);
  });
}

const NGINX = { program: "nginx", debianPackage: "nginx" };

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

const NGINX_COMMAND = ["nginx", "-p", ".", "-e", "stderr", "-c", "nginx.conf"] as const;

/** Everything that nginx reads, by name. */
function nginxFiles(upstream: string, ports: SitePorts): Record<string, string> {
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
  if (!areAtHand(t, [NGINX])) return;
  const files = nginxFiles("127.0.0.1:8787", await freePorts());
  const cwd = temporaryFolder(t);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(cwd, name), content);
  const [name, ...args] = NGINX_COMMAND;

  const command = [findProgram(name) ?? name, "-t", ...args] as const;
  const { code, stderr } = await runProgram(t, [], { command, cwd });

  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /\[(warn|error|emerg)\]/);
});

exerciseSite({
  file: "nginx.conf",
  program: NGINX,
  async start(t, upstream, ports) {
    const at = { host: OWN_ADDRESS, port: ports.tls };
    await startPeer(t, { ...at, files: nginxFiles(upstream, ports), command: NGINX_COMMAND });
  },
});

const CADDY: PeerProgram = { program: "caddy", debianPackage: "caddy" };

const SHIPPED = join(ROOT, "deploy", "Caddyfile");

// Caddy writes to its own folder only.
const CADDY_COMMAND = ["env", "HOME=.", "XDG_CONFIG_HOME=.", "XDG_DATA_HOME=.", "caddy"] as const;

// No admin port, and no port but the test's own.
const OPTIONS = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n";

/** Everything that Caddy reads, by name. */
function caddyFiles(upstream: string, ports: SitePorts): Record<string, string> {
  const bind = `\tbind ${OWN_ADDRESS}\n`;
  const site = siteFile("Caddyfile", {
    [`\nhttp://${SITE_NAME} {\n`]: `\nhttp://${SITE_NAME}:${ports.plain} {\n${bind}`,
    [`\nhttps://${SITE_NAME} {\n`]: `\nhttps://${SITE_NAME}:${ports.tls} {\n${bind}\ttls cert.pem key.pem\n`,
    "127.0.0.1:8787 ": `${upstream} `,
  });
  const { cert, key } = SITE_CERTIFICATE;
  return { Caddyfile: `${OPTIONS}${site}`, "cert.pem": cert, "key.pem": key };
}

test("caddy validate accepts deploy/Caddyfile and its format", async (t) => {
  if (!areAtHand(t, [CADDY])) return;
  const args = ["validate", "--adapter", "caddyfile", "--config", SHIPPED];
  const { code, stderr } = await runProgram(t, args, { command: CADDY_COMMAND });

  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /"level":"error"|not formatted/);
});

exerciseSite({
  file: "Caddyfile",
  program: CADDY,
  async start(t, upstream, ports) {
    const at = { host: OWN_ADDRESS, port: ports.tls };
    const command = [...CADDY_COMMAND, "run", "--config", "Caddyfile"] as const;
    await startPeer(t, { ...at, files: caddyFiles(upstream, ports), command });
  },
});

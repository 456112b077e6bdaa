import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";
import { EventReader } from "../http/event-stream.ts";
import { makeCertificate } from "../net/certificate.ts";
import { NGINX_PROGRAM } from "./nginx.ts";
import { areAtHand, findProgram, OWN_ADDRESS, startPeer } from "./peer-process.ts";

const FILE = join(dirname(dirname(import.meta.dirname)), "deploy", "nginx.conf");
const NAME = "postbackd.example.com";
const CERTIFICATE = makeCertificate({ commonName: NAME, names: [NAME] });

/** The file that is shipped, with this test's places in the stead of the ones in it. */
function site(places: Readonly<Record<string, string>>): string {
  return Object.entries(places).reduce(
    (all, [from, to]) => {
      assert.equal(all.split(from).length, 2, `deploy/nginx.conf has '${from}' once`);
      return all.replace(from, to);
    },
    readFileSync(FILE, "utf8"),
  );
}

// What a distribution's own nginx.conf has around it; everything that nginx writes stays in its folder.
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

interface Asked {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const COMMAND = ["nginx", "-p", ".", "-e", "stderr", "-c", "nginx.conf"] as const;

/** Everything that nginx reads, by name, and its ports. */
async function siteFiles(upstream: string) {
  const port = await findFreePort(OWN_ADDRESS);
  const plainPort = await findFreePort(OWN_ADDRESS);
  const files = {
    "nginx.conf": MAIN,
    "cert.pem": CERTIFICATE.cert,
    "key.pem": CERTIFICATE.key,
    "site.conf": site({
      "server 127.0.0.1:8787;": `server ${upstream};`,
      "listen 80;": `listen ${OWN_ADDRESS}:${plainPort};`,
      "listen 443 ssl;": `listen ${OWN_ADDRESS}:${port} ssl;`,
      [`/etc/letsencrypt/live/${NAME}/fullchain.pem`]: "cert.pem",
      [`/etc/letsencrypt/live/${NAME}/privkey.pem`]: "key.pem",
    }),
  };
  return { files, port, plainPort };
}

async function startSite(t: TestContext, upstream: string) {
  const { files, port, plainPort } = await siteFiles(upstream);
  await startPeer(t, { host: OWN_ADDRESS, port, files, command: COMMAND });
  const ask = ({ path, method = "GET", headers = {}, body }: Asked) => {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const tls = { ca: CERTIFICATE.cert, servername: NAME };
    const sent = { host: OWN_ADDRESS, port, path, method, headers: { host: NAME, ...headers } };
    const asked = request({ ...sent, ...tls }, resolve).once("error", reject);
    t.after(() => void asked.destroy());
    asked.end(body);
    return promise;
  };
  const call = async (asked: Asked) => {
    const answer = await ask(asked);
    // What it has is for each test to say.
    const fields = JSON.parse(await text(answer)) as {
      readonly status_code: number;
      readonly tasks?: readonly { readonly id: string; readonly state: string }[];
    };
    return { status: answer.statusCode, fields };
  };
  return { ask, call, plain: `http://${OWN_ADDRESS}:${plainPort}` };
}

test("nginx -t takes deploy/nginx.conf without a warning", async (t) => {
  if (!areAtHand(t, [NGINX_PROGRAM])) return;
  const { files } = await siteFiles("127.0.0.1:8787");
  const cwd = temporaryFolder(t);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(cwd, name), content);
  const [name, ...args] = COMMAND;

  const command = [findProgram(name) ?? name, "-t", ...args] as const;
  const { code, stderr } = await runProgram(t, [], { command, cwd });

  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /\[(warn|error|emerg)\]/);
});

test("through nginx with deploy/nginx.conf come a post, a wait and the stream of changes", async (t) => {
  if (!areAtHand(t, [NGINX_PROGRAM])) return;
  const daemon = await startTestDaemon(t, { toml: 'trusted_proxies = ["127.0.0.0/8"]\n' });
  const { ask, call, plain } = await startSite(t, new URL(daemon.url).host);
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
  assert.equal((await fetch(plain)).status, 403);
});

test("while no daemon is there, deploy/nginx.conf answers as the daemon would", async (t) => {
  if (!areAtHand(t, [NGINX_PROGRAM])) return;
  const { call } = await startSite(t, `${OWN_ADDRESS}:${await findFreePort(OWN_ADDRESS)}`);

  const { status, fields } = await call({ path: "/v1/tasks" });

  assert.deepEqual([status, fields.status_code], [503, 50300]);
});

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";

import { findForeignHmac } from "../../scripts/demo/foreign-hmac.ts";
import { findHaproxy, HOW_TO_GET_HAPROXY } from "../../scripts/kit/haproxy.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";

const DEMO = join(import.meta.dirname, "..", "..", "scripts", "demo.ts");

test("the demo of a cluster ends well, with each task ended once while a daemon and the database were killed", async (t) => {
  const reason = reasonToSkip();
  if (reason !== false) {
    t.skip(reason);
    return;
  }
  const { code, stdout, stderr } = await runDemo(t, process.env);

  assert.equal(code, 0, stderr);
  assert.match(stdout, /kill -9 node-\d, which ran [2-4] tasks/);
  assert.match(stdout, /kill -9 of PostgreSQL/);
  assert.match(stdout, /each ended once/);
  assert.match(stdout, /webhook-signature of all \d{2,} webhooks verified/);
});

test("where there is no HAProxy, the demo of a cluster starts nothing and says how to get one", async (t) => {
  const { code, stdout, stderr } = await runDemo(t, { PATH: import.meta.dirname });

  assert.equal(code, 1);
  assert.equal(stdout, "");
  assert.equal(stderr, `${HOW_TO_GET_HAPROXY}\n`);
});

function reasonToSkip(): string | false {
  if (findHaproxy() === null) return HOW_TO_GET_HAPROXY;
  if (findForeignHmac() === null) return "neither python3 nor openssl nor perl is installed";
  return reasonToSkipPostgres();
}

async function runDemo(t: TestContext, env: NodeJS.ProcessEnv) {
  const child = spawn(process.execPath, [DEMO, "--cluster"], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  t.after(() => child.kill());
  const ended = once(child, "exit");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await ended;
  return { code, stdout, stderr };
}

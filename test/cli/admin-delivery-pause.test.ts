import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { columns, documentOf } from "./in-process.ts";

const TOML = '[types.echo]\nrunner = "echo"\n[webhooks]\nallow = ["127.0.0.1", "127.0.0.2"]\n';

function delivery(t: TestContext, file: string, words: string) {
  return documentOf(t, ["admin", "delivery", ...words.split(" "), "--db", file]);
}

/** Settles when the daemon has read so many pauses: it polls once a second. */
async function knowsOf({ daemon }: TestDaemon, pauses: number): Promise<void> {
  while ((await daemon.gauges()).lanes.pauses !== pauses) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("a running daemon sends nothing to a paused host, and everything after the resume", async (t) => {
  const paused = await startReceiver(t);
  const free = await startReceiver(t, { host: "127.0.0.2" });
  const daemon = await startTestDaemon(t, { toml: TOML });
  const { file } = daemon;

  const made = await delivery(t, file, "pause --host 127.0.0.1 --reason maintenance");
  assert.deepEqual(
    [made.paused, made.host, made.login, made.waiting],
    [true, "127.0.0.1", null, 0],
  );
  await knowsOf(daemon, 1);
  const { tasks } = await daemon.post([
    { type: "echo", postback_url: paused.url("/a") },
    { type: "echo", postback_url: free.url("/b") },
  ]);
  await free.next();
  await daemon.daemon.idle();

  const { pauses } = await delivery(t, file, "paused");
  assert.deepEqual(columns(pauses, "host", "reason", "waiting"), [["127.0.0.1", "maintenance", 1]]);
  const { deliveries } = await delivery(t, file, `show ${tasks[0]?.id}`);
  assert.match(deliveries[0].explanation, /^paused: .*127\.0\.0\.1.*maintenance/);
  assert.equal(paused.requests.length, 0);

  const resumed = await delivery(t, file, "resume --host 127.0.0.1");
  assert.deepEqual([resumed.waiting, resumed.pauses_left], [1, 0]);
  assert.equal((await paused.next()).url, "/a");
});

test("start --pause-deliveries sends no webhook until they are resumed, also after a restart", async (t) => {
  const receiver = await startReceiver(t);
  const cwd = temporaryFolder(t);
  const file = join(cwd, "test.db");
  const account = await createTestAccount(file);
  const first = await startTestDaemon(t, { toml: TOML, folder: cwd, account });
  await delivery(t, file, "pause --account tester");
  await knowsOf(first, 1);
  await first.post([{ type: "echo", postback_url: receiver.url("/waits") }]);
  await first.daemon.idle();
  await first.daemon.stop();
  await delivery(t, file, "resume --account tester");

  writeFileSync(join(cwd, "postbackd.toml"), TOML);
  const start = ["start", "--port", "0", "--db", file];
  const elsewhere = async (verb: string) => {
    const { stdout } = await runProgram(t, ["admin", "delivery", verb, "--json", "--db", file]);
    return JSON.parse(stdout);
  };
  const rehearsal = startProgram(t, [...start, "--pause-deliveries"], { cwd });
  await rehearsal.ready;
  await rehearsal.says("all webhooks are paused");
  const { pauses } = await elsewhere("paused");
  const all = [null, null, "start --pause-deliveries", 1];
  assert.deepEqual(columns(pauses, "host", "login", "reason", "waiting"), [all]);
  await rehearsal.stop();
  const again = startProgram(t, start, { cwd });
  await again.ready;
  assert.equal(receiver.requests.length, 0);
  await elsewhere("resume");

  assert.equal((await receiver.next()).url, "/waits");
  assert.equal(receiver.requests.length, 1);
  await again.stop();
});

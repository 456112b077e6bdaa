import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { readEvent, type ShownEvent } from "./shown-event.ts";

const SECRET = newWebhookSecret();
const TOKEN = "t0p-5ecret";

/** The next event of this type and status. */
async function eventOf(receiver: Receiver, type: string, status: string): Promise<ShownEvent> {
  for (;;) {
    const event = await readEvent(await receiver.next(), SECRET);
    if (event.type === type && event.status === status) return event;
  }
}

/** A retention shorter than the retries of webhooks: a condition until the next restart. */
const SHORT = 'retention_days = 1\n[webhooks]\nretry_after = ["2d"]\nallow = ["127.0.0.1"]\n';

function toml(url: string, { secret = SECRET, before = SHORT } = {}): string {
  return `${before}[events]\nurl = "${url}"\nsecret = "${secret}"\n`;
}

function start(t: TestContext, text: string, cwd = temporaryFolder(t)): Program {
  writeFileSync(join(cwd, "postbackd.toml"), text);
  return startProgram(t, ["start", "--port", "0"], { cwd });
}

/** Stops the program, and checks that its log holds no secret. */
async function endQuietly(program: Program, ...others: readonly string[]): Promise<void> {
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
  for (const hidden of [TOKEN, SECRET, SECRET.slice(6), "whsec_", ...others]) {
    assert(!program.stderr.includes(hidden), hidden);
  }
}

test("the program sends signed events of its start and of conditions, and logs each once", async (t) => {
  const receiver = await startReceiver(t);
  const program = start(t, toml(receiver.url(`/${TOKEN}?token=${TOKEN}`)));
  await program.ready;

  const started = await eventOf(receiver, "daemon.started", "happened");
  const short = await eventOf(receiver, "retention.short", "began");

  assert.equal(receiver.requests[0]?.url, `/${TOKEN}?token=${TOKEN}`);
  assert.deepEqual([started.since, started.subject, started.remedy], [null, null, null]);
  assert.match(`${short.what} ${short.remedy}`, /retention_days.*webhooks\.retry_after/);
  assert(short.since !== null && short.since <= short.time && short.node !== "");
  await endQuietly(program);
  assert.equal(program.stderr.split("retention_days = 1").length, 2);
});

test("SIGHUP applies a new URL and secret of events, and a lasting condition is sent there again", async (t) => {
  const [first, second] = [await startReceiver(t), await startReceiver(t)];
  const cwd = temporaryFolder(t);
  const program = start(t, toml(first.url("/")), cwd);
  await program.ready;
  await eventOf(first, "retention.short", "began");
  const next = newWebhookSecret();

  writeFileSync(join(cwd, "postbackd.toml"), toml(second.url(`/${TOKEN}`), { secret: next }));
  program.kill("SIGHUP");
  const told = await readEvent(await second.next(), next);

  assert.deepEqual([told.type, told.status], ["retention.short", "began"]);
  await program.says("configuration reloaded");
  assert(!program.stderr.includes("take a restart"));
  await endQuietly(program, next);
});

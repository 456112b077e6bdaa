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

/** The first event of this type and status that comes, whatever comes before it. */
async function eventOf(receiver: Receiver, type: string, status: string): Promise<ShownEvent> {
  for (;;) {
    const event = await readEvent(await receiver.next(), SECRET);
    if (event.type === type && event.status === status) return event;
  }
}

/** Keeps tasks for a shorter time than their webhooks may take: a condition from the start on, until a restart. */
const SHORT = 'retention_days = 1\n[webhooks]\nretry_after = ["2d"]\nallow = ["127.0.0.1"]\n';

function toml(url: string, { secret = SECRET, before = SHORT } = {}): string {
  return `${before}[events]\nurl = "${url}"\nsecret = "${secret}"\n`;
}

function start(t: TestContext, text: string, cwd = temporaryFolder(t)): Program {
  writeFileSync(join(cwd, "postbackd.toml"), text);
  return startProgram(t, ["start", "--port", "0"], { cwd });
}

/** Stops the program, and checks that its log says nothing that it must not. */
async function endQuietly(program: Program, ...others: readonly string[]): Promise<void> {
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
  for (const hidden of [TOKEN, SECRET, SECRET.slice(6), "whsec_", ...others]) {
    assert(!program.stderr.includes(hidden), hidden);
  }
}

test("a URL of events that webhooks may not go to keeps the program from starting", async (t) => {
  const program = start(t, toml(`http://169.254.169.254/${TOKEN}?token=${TOKEN}`));

  assert.deepEqual(await program.exit, { code: 78, signal: null });
  assert.match(program.stderr, /events\.url: .*webhooks\.allow/);
  assert(!program.stderr.includes(TOKEN));
  assert.equal(program.stdout, "");
});

test("the program tells, signed, that it has started and what lasts, and logs it once", async (t) => {
  const receiver = await startReceiver(t);
  const program = start(t, toml(receiver.url(`/${TOKEN}?token=${TOKEN}`)));
  await program.ready;

  const started = await eventOf(receiver, "daemon.started", "happened");
  const short = await eventOf(receiver, "retention.short", "began");

  assert.equal(receiver.requests[0]?.url, `/${TOKEN}?token=${TOKEN}`);
  assert.match(started.what, /^postbackd \S+ has started/);
  assert.deepEqual([started.since, started.subject, started.remedy], [null, null, null]);
  assert.match(short.what, /^retention_days = 1 is shorter than the waits/);
  assert.equal(short.remedy, "raise retention_days or shorten webhooks.retry_after");
  assert(short.since !== null && short.since <= short.time && short.node !== "");
  await endQuietly(program);
  assert.equal(program.stderr.split("retention_days = 1 is shorter").length, 2);
});

test("SIGHUP takes over where events go and what signs them, and what lasts is told there again", async (t) => {
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

test("a URL of events that SIGHUP brings and that is refused changes nothing", async (t) => {
  const receiver = await startReceiver(t);
  const cwd = temporaryFolder(t);
  const program = start(t, toml(receiver.url("/")), cwd);
  await program.ready;

  writeFileSync(join(cwd, "postbackd.toml"), toml(`http://10.0.0.1/${TOKEN}`));
  program.kill("SIGHUP");
  await program.says("configuration not reloaded");

  assert.match(program.stderr, /events\.url: /);
  await endQuietly(program);
});

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import {
  createTestAccount,
  startTestDaemon,
  tempFolder,
  type TestDaemon,
} from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { ask } from "../http/answer.ts";
import { FROM_PAGE, signInOperator } from "../http/session-requests.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { readEvent, type ShownEvent } from "./shown-event.ts";
import { workerClient } from "./worker-client.ts";
import { MINUTE, NOW } from "./world.ts";

const SECRET = newWebhookSecret();
const LOOK_MS = 15_000;
// An hour.
const LOOKS_MAX = 240;

/** A daemon on a virtual clock, with a receiver of the operator's events. */
class Told {
  readonly daemon: TestDaemon;
  readonly clock: FakeClock;
  readonly #receiver: Receiver;
  #read = 0;
  /** By id, because an event may come twice. */
  readonly #events = new Map<string, ShownEvent>();

  constructor(daemon: TestDaemon, clock: FakeClock, receiver: Receiver) {
    this.daemon = daemon;
    this.clock = clock;
    this.#receiver = receiver;
  }

  /** Lets time pass, one check of the conditions at a time. */
  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += LOOK_MS) {
      this.clock.advance(LOOK_MS);
      await this.#settle();
    }
    for (const request of this.#receiver.requests.slice(this.#read)) {
      const event = await readEvent(request, SECRET);
      this.#events.set(event.id, event);
      this.#read++;
    }
  }

  async #settle(): Promise<void> {
    // The check reads in the same threads, before these.
    for (let turn = 0; turn < 3; turn++) {
      await this.daemon.daemon.gauges();
      await ask(this.daemon.url, { target: "/readyz" });
    }
    // The clock stands still until an event under way has arrived, or it would time out.
    const isOnWay = (): boolean =>
      this.logged(/an event was (not )?delivered/).length < this.logged(/an event is sent/).length;
    while (isOnWay()) await ask(this.daemon.url, { target: "/livez" });
  }

  /** All events, as `TYPE STATUS SUBJECT`. */
  get lines(): readonly string[] {
    return [...this.#events.values()].map(
      ({ type, status, subject }) => `${type} ${status} ${subject ?? "-"}`,
    );
  }

  /** Lets time pass until this event has arrived so many times. */
  async until(line: string, times = 1): Promise<ShownEvent> {
    for (let looks = 0; looks < LOOKS_MAX; looks++) {
      const found = [...this.#events.values()].filter((_, index) => this.lines[index] === line);
      const last = found.at(times - 1);
      if (last !== undefined) return last;
      await this.pass(LOOK_MS);
    }
    return assert.fail(`no ${line}, but ${this.lines.join()}`);
  }

  /** The lines of the log with this message. */
  logged(message: RegExp): readonly string[] {
    return this.daemon.logLines.filter((line) => message.test(line));
  }
}

/** The section of the configuration. */
function eventsTo(url: string, secret = SECRET): string {
  return `[events]\nurl = "${url}"\nsecret = "${secret}"\n`;
}

async function startTold(t: TestContext, toml: string, folder = tempFolder(t)): Promise<Told> {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const text = `${toml}\n${eventsTo(receiver.url("/told"))}`;
  const daemon = await startTestDaemon(t, { clock, folder, toml: text });
  return new Told(daemon, clock, receiver);
}

test("30 webhooks that are given up are one event with their host and without their queries", async (t) => {
  const told = await startTold(t, "webhooks.retry_after = []");
  // Port 1 refuses connections.
  const task = { type: "echo", postback_url: "http://127.0.0.1:1/hook?token=5ecret" };
  await told.daemon.post(Array.from({ length: 30 }, () => task));
  await told.daemon.daemon.idle();

  const event = await told.until("delivery.given_up happened -");
  await told.until("host.failing began 127.0.0.1");
  assert.deepEqual(event.hosts, [{ host: "127.0.0.1", count: 30 }]);
  await told.daemon.post(Array.from({ length: 10 }, () => task));
  await told.daemon.daemon.idle();

  const next = await told.until("delivery.given_up happened -", 2);
  assert.deepEqual(next.hosts, [{ host: "127.0.0.1", count: 10 }]);
  assert.deepEqual(told.lines.toSorted(), [
    ...["daemon.started happened -", "delivery.given_up happened -"],
    ...["delivery.given_up happened -", "host.failing began 127.0.0.1"],
  ]);
  assert.equal(told.logged(/webhooks were given up/).length, 2);
  assert.equal(told.logged(/5ecret|whsec_/).length, 0);
});

test("a missing worker is one event when it begins and one when a worker claims, and the system shows it meanwhile", async (t) => {
  const told = await startTold(t, '[types.print]\nrunner = "worker"');
  await told.daemon.post({ type: "print" });

  const began = await told.until("worker.missing began print");
  await told.pass(5 * MINUTE);

  assert.equal(told.lines.length, 2, told.lines.join());
  const operator = await signInOperator(told.daemon, told.clock.now());
  const { conditions } = (await operator.get("/system")).fields;
  const { what: text, remedy, since } = began;
  assert.deepEqual(conditions, [{ name: "worker.missing", subject: "print", since, text, remedy }]);
  const token = await createTestWorker(told.daemon.file, ["print"]);
  const worker = workerClient({ url: told.daemon.url, token });
  assert.equal(await worker.complete(await worker.claimOne()), "ok");
  const ended = await told.until("worker.missing ended print");
  assert(Date.parse(ended.time) - Date.parse(ended.since ?? "") >= 5 * MINUTE);
});

test("an account that stays over its limits is one event, an account with few refusals none", async (t) => {
  const told = await startTold(t, "limits.requests_per_minute = 5");
  const { key } = await createTestAccount(told.daemon.file, "other");
  const headers = { authorization: `Bearer ${key}` };
  const flood = async (): Promise<void> => {
    for (let i = 0; i < 70; i++) await told.daemon.call("/v1/tasks/tasks_ready");
    const statuses: number[] = [];
    for (let i = 0; i < 10; i++) {
      statuses.push((await told.daemon.call("/v1/tasks/tasks_ready", { headers })).status);
    }
    assert(statuses.includes(429), statuses.join());
  };

  await flood();
  await told.until("account.limited began tester");
  for (let minutes = 0; minutes < 2; minutes++) {
    await flood();
    await told.pass(MINUTE);
  }

  assert.deepEqual(told.lines, ["daemon.started happened -", "account.limited began tester"]);
});

test("lasting headers of an untrusted proxy are one event; single headers and a trusted proxy send no event", async (t) => {
  const untrusted = await startTold(t, "");
  const trusted = await startTold(t, 'trusted_proxies = ["127.0.0.1"]');
  const headers = { "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https" };
  const request = async (told: Told): Promise<void> => {
    await told.daemon.call("/v1/tasks/tasks_ready", { headers });
    await told.pass(4 * LOOK_MS);
  };

  await request(untrusted);
  assert.deepEqual(untrusted.lines, ["daemon.started happened -"]);
  for (let minutes = 0; minutes < 3; minutes++) {
    await request(untrusted);
    await request(trusted);
  }

  assert.deepEqual(untrusted.lines, ["daemon.started happened -", "proxy.untrusted began -"]);
  assert.deepEqual(trusted.lines, ["daemon.started happened -"]);
});

test("a failed backup is one event, one line of the log and a warning of a daemon that stays ready", async (t) => {
  const folder = tempFolder(t);
  // A file in place of the folder.
  writeFileSync(join(folder, "backups"), "");
  const told = await startTold(t, '[backup]\nschedule = "1 9 * * *"', folder);

  const began = await told.until("backup.failed began -");

  assert.match(began.what, /2030-01-31T09:01:.*backups/);
  assert.equal(told.logged(/backup.* failed: /).length, 1);
  const { response, body } = await ask(told.daemon.url, { target: "/readyz" });
  assert.equal(response.status, 200);
  assert.match(JSON.stringify(body), /"warnings":\["[^"]*backup[^"]*2030-01-31T09:01/);
});

test("the operator's overview shows a condition as a point of attention, an account's does not", async (t) => {
  const told = await startTold(t, 'retention_days = 1\nwebhooks.retry_after = ["2d"]');
  await told.until("retention.short began -");

  const operator = await signInOperator(told.daemon, told.clock.now());
  const page = { target: "/v1/stats/overview", headers: [...FROM_PAGE, operator.cookie] };
  const { body } = await ask(told.daemon.url, page);

  const { attention } = body as unknown as { attention: { what: string; text: string }[] };
  assert.equal(attention.length, 1);
  assert.equal(attention[0]?.what, "condition");
  assert.match(attention[0].text, /retention_days = 1/i);
  const ofAccount = await told.daemon.call("/v1/stats/overview");
  assert.match(await ofAccount.text(), /"attention":\[\]/);
});

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

function start(t: TestContext, events: string, cwd = temporaryFolder(t)): Program {
  writeFileSync(join(cwd, "postbackd.toml"), SHORT + events);
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
  const program = start(t, eventsTo(receiver.url(`/${TOKEN}?token=${TOKEN}`)));
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
  const program = start(t, eventsTo(first.url("/")), cwd);
  await program.ready;
  await eventOf(first, "retention.short", "began");
  const next = newWebhookSecret();

  writeFileSync(join(cwd, "postbackd.toml"), SHORT + eventsTo(second.url(`/${TOKEN}`), next));
  program.kill("SIGHUP");
  const told = await readEvent(await second.next(), next);

  assert.deepEqual([told.type, told.status], ["retention.short", "began"]);
  await program.says("configuration reloaded");
  assert(!program.stderr.includes("take a restart"));
  await endQuietly(program, next);
});

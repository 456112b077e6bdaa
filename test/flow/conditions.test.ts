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
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import { ask } from "../http/answer.ts";
import { signInOperator } from "../http/operator-requests.ts";
import { FROM_PAGE } from "../http/session-requests.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { readEvent, type ShownEvent } from "./shown-event.ts";
import { workerClient } from "./worker-client.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const SECRET = newWebhookSecret();
const LOOK_MS = 15_000;
// An hour.
const LOOKS_MAX = 240;

// Some seconds at least, of a receiver in this process.
const ASKED_MAX = 10_000;

/** A daemon on a virtual clock whose operator is told. */
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

  /** Lets time pass, a look at a time, with time to come to its end for what each begins. */
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
    // The look reads in the same threads, before these.
    for (let turn = 0; turn < 3; turn++) {
      await this.daemon.daemon.gauges();
      await ask(this.daemon.url, { target: "/readyz" });
    }
    // An attempt that is under way would run out of time at once.
    const isOnWay = (): boolean =>
      this.logged(/an event was (not )?delivered/).length < this.logged(/an event is told/).length;
    for (let asked = 0; isOnWay(); asked++) {
      assert(
        asked < ASKED_MAX,
        `an event is on its way for ever: ${this.daemon.logLines.join("")}`,
      );
      await ask(this.daemon.url, { target: "/livez" });
    }
  }

  /** All that were told, `TYPE STATUS SUBJECT` each. */
  get lines(): readonly string[] {
    return [...this.#events.values()].map(
      ({ type, status, subject }) => `${type} ${status} ${subject ?? "-"}`,
    );
  }

  /** Lets time pass until this has been told so often. */
  async until(line: string, times = 1): Promise<ShownEvent> {
    for (let looks = 0; looks < LOOKS_MAX; looks++) {
      const found = [...this.#events.values()].filter((_, index) => this.lines[index] === line);
      const last = found.at(times - 1);
      if (last !== undefined) return last;
      await this.pass(LOOK_MS);
    }
    return assert.fail(`${line} was not told, but ${this.lines.join()}`);
  }

  /** The lines of the log with this message. */
  logged(message: RegExp): readonly string[] {
    return this.daemon.logLines.filter((line) => message.test(line));
  }
}

async function startTold(t: TestContext, toml: string, folder = tempFolder(t)): Promise<Told> {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const events = `[events]\nurl = "${receiver.url("/told")}"\nsecret = "${SECRET}"\n`;
  const daemon = await startTestDaemon(t, { clock, folder, toml: `${toml}\n${events}` });
  return new Told(daemon, clock, receiver);
}

test("however many webhooks are given up, one event tells how many to which host, and none of their queries", async (t) => {
  const told = await startTold(t, "webhooks.retry_after = []");
  // Nobody listens there.
  const dead = (host: string) => ({
    type: "echo",
    postback_url: `http://${host}:1/hook?token=5ecret`,
  });
  await told.daemon.post(Array.from({ length: 30 }, () => dead("127.0.0.1")));
  await told.daemon.daemon.idle();

  const event = await told.until("delivery.given_up happened -");

  assert.deepEqual(event.hosts, [{ host: "127.0.0.1", count: 30 }]);
  assert.equal(event.what, "30 webhooks were given up after all retries, to 1 host");
  const failing = await told.until("host.failing began 127.0.0.1");
  assert.match(
    failing.what,
    /^30 attempts to reach 127\.0\.0\.1 have failed since 2030-01-31T09:00/,
  );
  await told.daemon.post(Array.from({ length: 10 }, () => dead("127.0.0.1")));
  await told.daemon.daemon.idle();
  const next = await told.until("delivery.given_up happened -", 2);
  assert.deepEqual(next.hosts, [{ host: "127.0.0.1", count: 10 }]);
  assert.deepEqual(told.lines.toSorted(), [
    ...["daemon.started happened -", "delivery.given_up happened -"],
    ...["delivery.given_up happened -", "host.failing began 127.0.0.1"],
  ]);
  assert.equal(told.logged(/webhooks were given up/).length, 2);
  assert.equal(told.logged(/attempts to reach/).length, 1);
  assert.equal(told.logged(/5ecret|whsec_/).length, 0);
});

test("tasks that wait for a worker that nobody has started are told of once, and when they are done", async (t) => {
  const told = await startTold(t, '[types.print]\nrunner = "worker"');
  await told.daemon.post({ type: "print" });

  const began = await told.until("worker.missing began print");
  await told.pass(5 * 60_000);

  assert.equal(
    began.what,
    "1 task of type print wait, and no worker for it has connected in the last minute",
  );
  assert.equal(told.lines.length, 2, told.lines.join());
  const operator = await signInOperator(told.daemon, told.clock.now());
  const { conditions } = (await operator.get("/system")).fields;
  const { what: text, remedy, since } = began;
  assert.deepEqual(conditions, [{ name: "worker.missing", subject: "print", since, text, remedy }]);
  const token = await createTestWorker(told.daemon.file, ["print"]);
  const worker = workerClient({ url: told.daemon.url, token });
  assert.equal(await worker.complete(await worker.claimOne()), "ok");
  const ended = await told.until("worker.missing ended print");
  assert(Date.parse(ended.time) - Date.parse(ended.since ?? "") >= 5 * 60_000);
  assert.equal(told.logged(/no worker for it has connected/).length, 2);
});

test("an account that goes on over its limits is told of once, one that is refused now and then never", async (t) => {
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
  const began = await told.until("account.limited began tester");
  await flood();
  await told.pass(60_000);
  await flood();
  await told.pass(60_000);

  assert.match(began.remedy ?? "", /admin account limit tester/);
  assert.deepEqual(told.lines, ["daemon.started happened -", "account.limited began tester"]);
  assert.equal(told.logged(/the account tester goes on/).length, 1);
});

test("X-Forwarded-For from a peer that is not trusted is told of when it lasts, once", async (t) => {
  const told = await startTold(t, "");
  const behindProxy = (): Promise<unknown> =>
    told.daemon.call("/v1/tasks/tasks_ready", { headers: { "x-forwarded-for": "203.0.113.7" } });

  await behindProxy();
  await told.pass(30_000);
  assert.deepEqual(told.lines, ["daemon.started happened -"]);
  await told.pass(30_000);
  await behindProxy();
  const began = await told.until("proxy.untrusted began -");
  await behindProxy();
  await told.pass(60_000);

  assert.match(began.what, /^X-Forwarded-\* comes from 127\.0\.0\.1, which is no trusted proxy/);
  assert.equal(told.lines.length, 2);
  assert.equal(told.logged(/no trusted proxy/).length, 1);
});

test("the headers of a trusted proxy, and of a client that tries them once, are not told of", async (t) => {
  const trusted = await startTold(t, 'trusted_proxies = ["127.0.0.1"]');
  const direct = await startTold(t, "");
  const headers = { "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https" };
  for (let i = 0; i < 8; i++) {
    await trusted.daemon.call("/v1/tasks/tasks_ready", { headers });
    if (i === 0) await direct.daemon.call("/v1/tasks/tasks_ready", { headers });
    else await direct.daemon.call("/v1/tasks/tasks_ready");
    await Promise.all([trusted.pass(LOOK_MS), direct.pass(LOOK_MS)]);
  }
  for (const told of [trusted, direct]) assert.deepEqual(told.lines, ["daemon.started happened -"]);
});

test("a backup that fails is told of with its reason, and logged by who makes it alone", async (t) => {
  const folder = tempFolder(t);
  // A file in the folder's place.
  writeFileSync(join(folder, "backups"), "");
  const told = await startTold(t, '[backup]\nschedule = "1 9 * * *"', folder);

  const began = await told.until("backup.failed began -");

  assert.match(began.what, /^the backup of 2030-01-31T09:01:\S+ failed: .*backups/);
  assert.equal(told.logged(/backup.* failed: /).length, 1);
});

test("the dashboard's overview tells the operator of conditions that it has no other words for", async (t) => {
  const told = await startTold(t, 'retention_days = 1\nwebhooks.retry_after = ["2d"]');
  await told.until("retention.short began -");

  const operator = await signInOperator(told.daemon, told.clock.now());
  const page = { target: "/v1/stats/overview", headers: [...FROM_PAGE, operator.cookie] };
  const { body } = await ask(told.daemon.url, page);

  const { attention } = body as unknown as { attention: { what: string; text: string }[] };
  assert.deepEqual(
    attention.map(({ what }) => what),
    ["condition"],
  );
  assert.match(attention[0]?.text ?? "", /^Retention_days = 1 is shorter/);
});

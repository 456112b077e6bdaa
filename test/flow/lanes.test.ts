import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { createGate, startReceiver, type Receiver } from "../helpers/receiver.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const MINUTE = 60_000;
// The slots of a probing lane.
const PROBING = 4;

interface Parts {
  readonly clock: FakeClock;
  readonly daemon: TestDaemon;
}

/** A daemon that may send to the whole loopback net; `webhooks` are more lines of its section. */
async function start(t: TestContext, webhooks = ""): Promise<Parts> {
  const clock = createFakeClock({ now: NOW });
  const toml = `[webhooks]\nallow = ["127.0.0.0/8", "slow.example", "works.example"]\n${webhooks}`;
  const started: Parts[] = [];
  // First, because the daemon's own end would wait for hanging attempts on a clock that stands still.
  t.after(() => Promise.all(started.map(stop)));
  const parts = { clock, daemon: await startTestDaemon(t, { clock, toml }) };
  started.push(parts);
  return parts;
}

async function post({ daemon }: Parts, url: string, count: number): Promise<void> {
  await daemon.post(Array.from({ length: count }, () => ({ postback_url: url })));
}

/** Posts as {@link post} does, for a new account. */
async function postAsOther({ daemon }: Parts, url: string, count: number): Promise<void> {
  const { key } = await createTestAccount(daemon.file, "other");
  const tasks = Array.from({ length: count }, () => ({ postback_url: url }));
  const answer = await daemon.call("/v1/tasks/task_post", {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(tasks),
  });
  assert.equal(answer.status, 200);
}

/** Ends the daemon and its hanging attempts. */
async function stop({ clock, daemon }: Parts): Promise<void> {
  const stopped = daemon.daemon.stop();
  clock.advance(25_000);
  await stopped;
}

function neighbour(t: TestContext): Promise<Receiver> {
  return startReceiver(t, { host: "127.0.0.2" });
}

test("a host that hangs holds the slots of a probing lane, and postbacks to another host arrive", async (t) => {
  const parts = await start(t);
  const hangs = await startReceiver(t, { reply: { kind: "hang" } });
  const works = await neighbour(t);
  await post(parts, hangs.url(), 100);
  await hangs.waitFor(PROBING);

  await post(parts, works.url(), 50);

  await works.waitFor(50);
  assert.equal(hangs.requests.length, PROBING);
});

test("hanging postbacks of one account do not delay another account at the same host", async (t) => {
  const parts = await start(t);
  const shared = await startReceiver(t);
  await post(parts, shared.url(), 1);
  await parts.daemon.daemon.idle();
  shared.answer({ kind: "hang" });
  await post(parts, shared.url("/hangs"), 100);
  await shared.waitFor(1 + 28);
  shared.answer({ kind: "status", status: 200 });

  await postAsOther(parts, shared.url("/works"), 50);

  const requests = await shared.waitFor(1 + 28 + 50);
  const hanging = requests.filter(({ url }) => url === "/hangs");
  assert.equal(hanging.length, 28);
});

for (const [what, reply] of [
  ["interim answers", { kind: "flood", bytes: "HTTP/1.1 100 Continue\r\n\r\n" }],
  ["headers", { kind: "flood", head: "HTTP/1.1 200 OK\r\n", bytes: "x-flood: 1\r\n" }],
  ["a body", { kind: "flood", head: "HTTP/1.1 200 OK\r\n\r\n", bytes: "flood " }],
] as const) {
  test(`a host that floods with ${what} does not delay another host`, async (t) => {
    const parts = await start(t);
    const floods = await startReceiver(t, { reply });
    const works = await neighbour(t);
    await post(parts, floods.url(), 50);
    await floods.waitFor(PROBING);

    await post(parts, works.url(), 50);

    await works.waitFor(50);
  });
}

test("a name that resolves slowly holds its own lane, and other names resolve meanwhile", async (t) => {
  const dns = await startDnsServer(t);
  const gate = createGate();
  const held = { kind: "held", until: gate.opened, answer: addresses("127.0.0.1") } as const;
  dns.script("slow.example", { A: held });
  dns.script("works.example", { A: addresses("127.0.0.1") });
  const parts = await start(t, `dns_servers = ["${dns.servers[0] ?? ""}"]`);
  const receiver = await startReceiver(t);
  await post(parts, `http://slow.example:${receiver.port}/slow`, 100);
  await dns.waitFor(1);

  await post(parts, `http://works.example:${receiver.port}/works`, 50);

  const requests = await receiver.waitFor(50);
  assert.ok(requests.every(({ url }) => url === "/works"));
  gate.open();
  await receiver.waitFor(150);
  await parts.daemon.daemon.idle();
});

test("first attempts go before late retries", async (t) => {
  const parts = await start(t, "max_in_flight = 16");
  const { clock, daemon } = parts;
  const fails = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const works = await neighbour(t);
  await post(parts, fails.url(), 40);
  await daemon.daemon.idle();
  fails.answer({ kind: "hang" });
  clock.advance(MINUTE + 1000);
  // Retries have a quarter of all slots. These hang, so the other retries are late from here on.
  await fails.waitFor(40 + 4);

  await post(parts, works.url(), 50);

  await works.waitFor(50);
  assert.equal(fails.requests.length, 40 + 4);
});

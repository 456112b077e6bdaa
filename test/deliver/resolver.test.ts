import assert from "node:assert/strict";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";

import { LookUpTurns, type Resolution, Resolver } from "../../src/deliver/resolver.ts";
import {
  type DnsAnswer,
  type DnsScript,
  type DnsServer,
  addresses,
  startDnsServer,
} from "../helpers/dns-server.ts";
import { type FakeClock, createFakeClock } from "../helpers/fake-clock.ts";
import { createGate } from "../helpers/receiver.ts";
import { writeHosts } from "./sender-setup.ts";

const NAME = "hooks.example.com";
const never = new AbortController().signal;

interface Setup {
  readonly dns: DnsServer;
  readonly clock: FakeClock;
  readonly hostsFile: string;
  readonly resolver: Resolver;
  resolve(host?: string, signal?: AbortSignal): Promise<Resolution>;
}

async function setUp(t: TestContext, hosts: readonly string[] = []): Promise<Setup> {
  const dns = await startDnsServer(t);
  const clock = createFakeClock({ now: 0 });
  const hostsFile = writeHosts(t, hosts);
  const resolver = new Resolver({ servers: dns.servers, hostsFile, clock });
  t.after(() => resolver.close());
  const resolve = (host = NAME, signal = never): Promise<Resolution> =>
    resolver.resolve(host, { signal });
  return { dns, clock, hostsFile, resolver, resolve };
}

function found(...list: readonly string[]): Resolution {
  return { kind: "addresses", addresses: list };
}

test("a look-up queries both families and returns each address once, the families in turn", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, {
    A: addresses("192.0.2.2", "192.0.2.1", "192.0.2.2", "192.0.2.3"),
    AAAA: addresses("2001:db8::2"),
  });

  assert.deepEqual(await resolve(), found("192.0.2.2", "2001:db8::2", "192.0.2.1", "192.0.2.3"));
  assert.deepEqual(dns.questions.map(({ type }) => type).sort(), ["A", "AAAA"]);
});

test("one family is enough if the other fails or is empty", async (t) => {
  const { dns, resolve } = await setUp(t);
  const failures: readonly DnsAnswer[] = [{ kind: "nxdomain" }, { kind: "servfail" }, addresses()];
  for (const failure of failures) {
    dns.script("four.example.com", { A: addresses("192.0.2.1"), AAAA: failure });
    dns.script("six.example.com", { A: failure, AAAA: addresses("2001:db8::1") });

    assert.deepEqual(await resolve("four.example.com"), found("192.0.2.1"));
    assert.deepEqual(await resolve("six.example.com"), found("2001:db8::1"));
  }
});

test("IPv4 addresses wait 50 ms for missing IPv6 addresses, in each look-up", async (t) => {
  const { dns, clock, resolve } = await setUp(t);
  dns.script(NAME, {
    A: [addresses("192.0.2.1"), addresses("192.0.2.2")],
    AAAA: { kind: "silence" },
  });

  for (const address of ["192.0.2.1", "192.0.2.2"]) {
    const resolving = resolve();
    await clock.whenPending(1);
    clock.advance(49);
    assert.deepEqual(clock.pending(), [1]);
    clock.advance(1);

    assert.deepEqual(await resolving, found(address));
    assert.deepEqual(clock.pending(), []);
  }
  // The second look-up waits for the open query of the first.
  assert.deepEqual(dns.questions.map(({ type }) => type).sort(), ["A", "A", "AAAA"]);
});

test("a look-up waits for the slower family, which may have a refused address", async (t) => {
  const { dns, clock, resolve } = await setUp(t);
  const [four, six] = [addresses("192.0.2.1"), addresses("::1")];
  for (const slow of ["A", "AAAA"]) {
    const gate = createGate();
    const hold = (answer: DnsAnswer) => ({ kind: "held", until: gate.opened, answer }) as const;
    dns.script(NAME, slow === "A" ? { A: hold(four), AAAA: six } : { A: four, AAAA: hold(six) });

    const before = dns.questions.length;
    const resolving = resolve();
    await dns.waitFor(before + 2);
    // IPv6 addresses wait for IPv4 addresses as long as necessary.
    if (slow === "A") clock.advance(1000);
    gate.open();

    assert.deepEqual(await resolving, found("192.0.2.1", "::1"), slow);
  }
});

test("a failure has the error of the failed family, not of the empty one", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, { A: addresses(), AAAA: { kind: "servfail" } });

  const failure = await resolve();
  assert(failure.kind === "failed");
  assert.match(failure.error, /server/);
});

test("a look-up never uses the addresses of an earlier one", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, { A: [addresses("192.0.2.1"), addresses("192.0.2.2")] });

  const first = await resolve();
  const second = await resolve();

  assert.deepEqual(first, found("192.0.2.1"));
  assert.deepEqual(second, found("192.0.2.2"));
});

test("simultaneous look-ups of a name share one query", async (t) => {
  const { dns, resolve } = await setUp(t);
  const gate = createGate();
  const answer = addresses("192.0.2.1");
  dns.script(NAME, { A: { kind: "held", until: gate.opened, answer } });

  const resolving = Array.from({ length: 100 }, () => resolve());
  await dns.waitFor(2);
  gate.open();

  for (const resolution of await Promise.all(resolving)) {
    assert.deepEqual(resolution, found("192.0.2.1"));
  }
  assert.equal(dns.questions.length, 2);
});

test("a look-up does not join a query that is a second old", async (t) => {
  const { dns, clock, resolve } = await setUp(t);
  const gate = createGate();
  const held: DnsAnswer = { kind: "held", until: gate.opened, answer: addresses("192.0.2.1") };
  dns.script(NAME, { A: [held, addresses("192.0.2.2")] });

  const older = resolve();
  await dns.waitFor(2);
  clock.advance(1000);
  const younger = await resolve();
  gate.open();

  assert.deepEqual(younger, found("192.0.2.2"));
  assert.deepEqual(await older, found("192.0.2.1"));
});

test("an aborted look-up does not affect the others of its query", async (t) => {
  const { dns, resolve } = await setUp(t);
  const gate = createGate();
  const answer = addresses("192.0.2.1");
  dns.script(NAME, { A: { kind: "held", until: gate.opened, answer } });
  const controller = new AbortController();

  const given = resolve(NAME, controller.signal);
  const waiting = resolve();
  await dns.waitFor(2);
  controller.abort();

  assert.equal((await given).kind, "failed");
  gate.open();
  assert.deepEqual(await waiting, found("192.0.2.1"));
});

test("an aborted look-up sends no query", async (t) => {
  const { dns, resolve } = await setUp(t);

  const resolution = await resolve(NAME, AbortSignal.abort());

  assert.equal(resolution.kind, "failed");
  assert.deepEqual(dns.questions, []);
});

test("a silent name server gets three queries within six seconds", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, { A: { kind: "silence" }, AAAA: addresses() });
  const startedAt = performance.now();

  const resolution = await resolve();

  const tookMs = performance.now() - startedAt;
  assert.equal(resolution.kind, "failed");
  assert.equal(dns.questions.filter(({ type }) => type === "A").length, 3);
  assert(tookMs > 5500, `${tookMs} ms`);
});

test("a look-up fails immediately if the name server cannot be reached", async (t) => {
  const clock = createFakeClock({ now: 0 });
  const hostsFile = writeHosts(t, []);
  const resolver = new Resolver({ servers: ["127.0.0.1:1"], hostsFile, clock });
  t.after(() => resolver.close());

  const { signal } = new AbortController();
  assert.equal((await resolver.resolve(NAME, { signal })).kind, "failed");
});

test("a name without a dot gets no search domain", async (t) => {
  const { dns, resolve } = await setUp(t);

  await resolve("receiver");

  for (const { name } of dns.questions) assert.equal(name, "receiver");
});

test("a name in the hosts file is found without a query", async (t) => {
  const { dns, resolve } = await setUp(t, [
    "# a comment",
    "",
    "192.0.2.7\tReceiver.LAN  receiver # the box in the rack",
    "  2001:db8::7 receiver.lan",
    "192.0.2.7 receiver.lan",
    "not-an-address broken.lan",
    "fe80::1%lo0 zoned.lan",
  ]);

  assert.deepEqual(await resolve("receiver.lan"), found("192.0.2.7", "2001:db8::7"));
  assert.deepEqual(await resolve("receiver"), found("192.0.2.7"));
  assert.deepEqual(dns.questions, []);
  assert.equal((await resolve("broken.lan")).kind, "failed");
  assert.equal((await resolve("zoned.lan")).kind, "failed");
});

test("a changed hosts file is read again", async (t) => {
  const { hostsFile, clock, resolve } = await setUp(t, ["192.0.2.1 receiver.lan"]);
  const first = await resolve("receiver.lan");

  writeFileSync(`${hostsFile}.new`, "192.0.2.2 receiver.lan\n");
  renameSync(`${hostsFile}.new`, hostsFile);
  clock.advance(100);
  const second = await resolve("receiver.lan");
  rmSync(hostsFile);
  clock.advance(100);
  const third = await resolve("receiver.lan");

  assert.deepEqual(first, found("192.0.2.1"));
  assert.deepEqual(second, found("192.0.2.2"));
  assert.equal(third.kind, "failed");
});

test("localhost is loopback without a query, unless the hosts file has it", async (t) => {
  const plain = await setUp(t);
  const listed = await setUp(t, ["127.0.0.5 localhost"]);

  assert.deepEqual(await plain.resolve("localhost"), found("127.0.0.1", "::1"));
  assert.deepEqual(await plain.resolve("app.localhost"), await plain.resolve("localhost"));
  assert.deepEqual(await listed.resolve("localhost"), found("127.0.0.5"));
  assert.deepEqual(plain.dns.questions, []);
});

test("unanswered queries of one account hold its 96 turns, also after their look-ups, and delay no other account", async (t) => {
  const { dns, clock, resolver } = await setUp(t);
  const stop = new AbortController();
  const names = Array.from({ length: 200 }, (_, i) => `silent-${i}.example.com`);
  const answers: DnsScript = { A: addresses("192.0.2.2"), AAAA: { kind: "silence" } };
  for (const name of names) dns.script(name, answers);
  dns.script(NAME, { A: addresses("192.0.2.1") });
  const hanging = names.map((name) =>
    resolver.resolve(name, { signal: stop.signal, accountId: 1 }),
  );
  await clock.whenPending(96);
  clock.advance(50);
  for (const each of await Promise.all(hanging.slice(0, 96))) assert.equal(each.kind, "addresses");

  const answer = await resolver.resolve(NAME, {
    signal: new AbortController().signal,
    accountId: 2,
  });

  assert.deepEqual(answer, found("192.0.2.1"));
  const asked = new Set(dns.questions.map(({ name }) => name));
  assert.equal(asked.size, 96 + 1);
  stop.abort();
  for (const each of await Promise.all(hanging.slice(96))) assert.equal(each.kind, "failed");
});

test("a close ends open look-ups and rejects later ones", async (t) => {
  const { dns, resolver, resolve } = await setUp(t);
  dns.script(NAME, { A: { kind: "silence" }, AAAA: { kind: "silence" } });

  const resolving = resolve();
  await dns.waitFor(2);
  resolver.close();

  assert.equal((await resolving).kind, "failed");
  assert.equal((await resolve()).kind, "failed");
});

/** Turns, with the look-ups that began, by account, and the function that ends each. */
function setUpTurns() {
  const turns = new LookUpTurns();
  const begun: { readonly accountId: number; readonly end: () => void }[] = [];
  const given: number[] = [];
  const ask = (accountId: number, count: number, signal = never): void => {
    for (let i = 0; i < count; i++) {
      void turns.take(accountId, signal).then((end) => {
        if (end === null) given.push(accountId);
        else begun.push({ accountId, end });
      });
    }
  };
  const begunOf = (accountId: number): number =>
    begun.filter((each) => each.accountId === accountId).length;
  return { begun, given, ask, begunOf };
}

// Look-ups begin in microtasks.
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("128 look-ups are in progress, and the account with the fewest begins the next", async () => {
  const { ask, begun, begunOf } = setUpTurns();
  for (let accountId = 1; accountId <= 200; accountId++) ask(accountId, 2);
  await turn();
  assert.equal(begun.length, 128);
  assert.equal(begunOf(200), 0);

  begun.find(({ accountId }) => accountId === 1)?.end();
  await turn();

  assert.equal(begun.length, 129);
  assert.ok(begun[128] !== undefined && begun[128].accountId > 1);
  assert.equal(begunOf(begun[128].accountId), 1);
});

test("each look-up of an account that ends lets one begin", async () => {
  const { ask, begun, begunOf } = setUpTurns();
  ask(1, 200);
  await turn();

  for (const { end } of begun.slice(0, 50)) end();
  await turn();

  assert.equal(begunOf(1), 146);
  for (const { end } of begun.slice(50)) end();
  await turn();
  assert.equal(begunOf(1), 200);
});

test("an aborted look-up leaves its turn to the next", async () => {
  const { ask, begun, given, begunOf } = setUpTurns();
  ask(1, 96);
  const stop = new AbortController();
  ask(1, 3, stop.signal);
  ask(1, 1);
  await turn();
  assert.equal(begunOf(1), 96);

  stop.abort();
  await turn();
  assert.equal(given.length, 3);
  begun[0]?.end();
  await turn();

  assert.equal(begunOf(1), 97);
  ask(1, 1, stop.signal);
  await turn();
  assert.equal(given.length, 4);
});

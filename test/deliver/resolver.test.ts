import assert from "node:assert/strict";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { Resolver, type Resolution } from "../../src/deliver/resolver.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import type { DnsAnswer, DnsServer } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import type { FakeClock } from "../helpers/fake-clock.ts";
import { createGate } from "../helpers/receiver.ts";
import { writeHosts } from "./sender-setup.ts";

const NAME = "hooks.example.com";

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
  const never = new AbortController().signal;
  const resolve = (host = NAME, signal = never): Promise<Resolution> =>
    resolver.resolve(host, { signal });
  return { dns, clock, hostsFile, resolver, resolve };
}

test("both families are asked, and the answer holds each address once, the families in turn", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, {
    A: addresses("192.0.2.2", "192.0.2.1", "192.0.2.2", "192.0.2.3"),
    AAAA: addresses("2001:db8::2"),
  });

  assert.deepEqual(await resolve(), {
    kind: "addresses",
    addresses: ["192.0.2.2", "2001:db8::2", "192.0.2.1", "192.0.2.3"],
  });
  assert.deepEqual(dns.questions.map(({ type }) => type).sort(), ["A", "AAAA"]);
});

for (const [what, failure] of [
  ["does not exist", { kind: "nxdomain" }],
  ["fails", { kind: "servfail" }],
  ["is empty", addresses()],
] as const satisfies readonly (readonly [string, DnsAnswer])[]) {
  test(`one family is enough when the other ${what}`, async (t) => {
    const { dns, resolve } = await setUp(t);
    dns.script("four.example.com", { A: addresses("192.0.2.1"), AAAA: failure });
    dns.script("six.example.com", { A: failure, AAAA: addresses("2001:db8::1") });

    assert.deepEqual(await resolve("four.example.com"), {
      kind: "addresses",
      addresses: ["192.0.2.1"],
    });
    assert.deepEqual(await resolve("six.example.com"), {
      kind: "addresses",
      addresses: ["2001:db8::1"],
    });
  });
}

test("the slower family is waited for: it may hold the address that is refused", async (t) => {
  const { dns, resolve } = await setUp(t);
  const gate = createGate();
  dns.script(NAME, {
    A: addresses("192.0.2.1"),
    AAAA: { kind: "held", until: gate.opened, answer: addresses("::1") },
  });

  const resolving = resolve();
  await dns.waitFor(2);
  gate.open();

  assert.deepEqual(await resolving, { kind: "addresses", addresses: ["192.0.2.1", "::1"] });
});

test("IPv4 addresses wait 50 ms for IPv6 addresses that do not come, and each attempt has its own", async (t) => {
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

    assert.deepEqual(await resolving, { kind: "addresses", addresses: [address] });
    assert.deepEqual(clock.pending(), []);
  }
  // The second attempt waits for the query of the first, which is still open.
  assert.deepEqual(dns.questions.map(({ type }) => type).sort(), ["A", "A", "AAAA"]);
});

test("IPv6 addresses wait for IPv4 addresses, however late these are", async (t) => {
  const { dns, clock, resolve } = await setUp(t);
  const gate = createGate();
  dns.script(NAME, {
    A: { kind: "held", until: gate.opened, answer: addresses("192.0.2.1") },
    AAAA: addresses("2001:db8::1"),
  });

  const resolving = resolve();
  await dns.waitFor(2);
  clock.advance(1000);
  gate.open();

  const both = { kind: "addresses", addresses: ["192.0.2.1", "2001:db8::1"] };
  assert.deepEqual(await resolving, both);
});

test("a failure names what went wrong, not that the other family was empty", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, { A: addresses(), AAAA: { kind: "servfail" } });

  assert.deepEqual(await resolve(), { kind: "failed", error: "name server failed" });
});

test("no answer is kept for the next attempt, whatever its time to live", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, { A: [addresses("192.0.2.1"), addresses("192.0.2.2")] });

  const first = await resolve();
  const second = await resolve();

  assert.deepEqual(first, { kind: "addresses", addresses: ["192.0.2.1"] });
  assert.deepEqual(second, { kind: "addresses", addresses: ["192.0.2.2"] });
});

test("look-ups of one name at once are one look-up", async (t) => {
  const { dns, resolve } = await setUp(t);
  const gate = createGate();
  const answer = addresses("192.0.2.1");
  dns.script(NAME, { A: { kind: "held", until: gate.opened, answer } });

  const resolving = Array.from({ length: 100 }, () => resolve());
  await dns.waitFor(2);
  gate.open();

  for (const resolution of await Promise.all(resolving)) {
    assert.deepEqual(resolution, { kind: "addresses", addresses: ["192.0.2.1"] });
  }
  assert.equal(dns.questions.length, 2);
});

test("a look-up that has been under way for a second is not joined any more", async (t) => {
  const { dns, clock, resolve } = await setUp(t);
  const gate = createGate();
  const held: DnsAnswer = { kind: "held", until: gate.opened, answer: addresses("192.0.2.1") };
  dns.script(NAME, { A: [held, addresses("192.0.2.2")] });

  const older = resolve();
  await dns.waitFor(2);
  clock.advance(1000);
  const younger = await resolve();
  gate.open();

  assert.deepEqual(younger, { kind: "addresses", addresses: ["192.0.2.2"] });
  assert.deepEqual(await older, { kind: "addresses", addresses: ["192.0.2.1"] });
});

test("one that gives up does not take the others with it", async (t) => {
  const { dns, resolve } = await setUp(t);
  const gate = createGate();
  const answer = addresses("192.0.2.1");
  dns.script(NAME, { A: { kind: "held", until: gate.opened, answer } });
  const controller = new AbortController();

  const given = resolve(NAME, controller.signal);
  const waiting = resolve();
  await dns.waitFor(2);
  controller.abort();

  assert.deepEqual(await given, { kind: "failed", error: "name resolution was cut short" });
  gate.open();
  assert.deepEqual(await waiting, { kind: "addresses", addresses: ["192.0.2.1"] });
});

test("an aborted attempt asks nobody", async (t) => {
  const { dns, resolve } = await setUp(t);

  const resolution = await resolve(NAME, AbortSignal.abort());

  assert.equal(resolution.kind, "failed");
  assert.deepEqual(dns.questions, []);
});

test("a silent name server is asked three times and given up after six seconds", async (t) => {
  const { dns, resolve } = await setUp(t);
  dns.script(NAME, { A: { kind: "silence" }, AAAA: addresses() });
  const startedAt = performance.now();

  const resolution = await resolve();

  const tookMs = performance.now() - startedAt;
  assert.deepEqual(resolution, { kind: "failed", error: "name server did not answer" });
  assert.equal(dns.questions.filter(({ type }) => type === "A").length, 3);
  assert(tookMs > 5500, `${tookMs} ms`);
});

test("a name server that is not there is a failure at once", async (t) => {
  const clock = createFakeClock({ now: 0 });
  const resolver = new Resolver({
    servers: ["127.0.0.1:1"],
    hostsFile: writeHosts(t, []),
    clock,
  });
  t.after(() => resolver.close());

  const { signal } = new AbortController();
  assert.deepEqual(await resolver.resolve(NAME, { signal }), {
    kind: "failed",
    error: "name server cannot be reached",
  });
});

test("a dotless name gets no search domain", async (t) => {
  const { dns, resolve } = await setUp(t);

  await resolve("receiver");

  for (const { name } of dns.questions) assert.equal(name, "receiver");
});

test("a name in the hosts file is answered from it, and no name server is asked", async (t) => {
  const { dns, resolve } = await setUp(t, [
    "# a comment",
    "",
    "192.0.2.7\tReceiver.LAN  receiver # the box in the rack",
    "  2001:db8::7 receiver.lan",
    "192.0.2.7 receiver.lan",
    "not-an-address broken.lan",
    "fe80::1%lo0 zoned.lan",
  ]);

  assert.deepEqual(await resolve("receiver.lan"), {
    kind: "addresses",
    addresses: ["192.0.2.7", "2001:db8::7"],
  });
  assert.deepEqual(await resolve("receiver"), { kind: "addresses", addresses: ["192.0.2.7"] });
  assert.deepEqual(dns.questions, []);
  assert.equal((await resolve("broken.lan")).kind, "failed");
  assert.equal((await resolve("zoned.lan")).kind, "failed");
});

test("the hosts file is read again when it has changed", async (t) => {
  const { hostsFile, clock, resolve } = await setUp(t, ["192.0.2.1 receiver.lan"]);
  const first = await resolve("receiver.lan");

  writeFileSync(`${hostsFile}.new`, "192.0.2.2 receiver.lan\n");
  renameSync(`${hostsFile}.new`, hostsFile);
  clock.advance(100);
  const second = await resolve("receiver.lan");
  rmSync(hostsFile);
  clock.advance(100);
  const third = await resolve("receiver.lan");

  assert.deepEqual(first, { kind: "addresses", addresses: ["192.0.2.1"] });
  assert.deepEqual(second, { kind: "addresses", addresses: ["192.0.2.2"] });
  assert.deepEqual(third, { kind: "failed", error: "name not found" });
});

test("localhost is loopback without a name server, unless the hosts file says otherwise", async (t) => {
  const plain = await setUp(t);
  const listed = await setUp(t, ["127.0.0.5 localhost"]);

  assert.deepEqual(await plain.resolve("localhost"), {
    kind: "addresses",
    addresses: ["127.0.0.1", "::1"],
  });
  assert.deepEqual(await plain.resolve("app.localhost"), await plain.resolve("localhost"));
  assert.deepEqual(await listed.resolve("localhost"), {
    kind: "addresses",
    addresses: ["127.0.0.5"],
  });
  assert.deepEqual(plain.dns.questions, []);
});

test("names of one account that nobody answers for do not hold up another's", async (t) => {
  const { dns, resolver } = await setUp(t);
  const stop = new AbortController();
  const names = Array.from({ length: 200 }, (_, i) => `silent-${i}.example.com`);
  for (const name of names) dns.script(name, { A: { kind: "silence" }, AAAA: { kind: "silence" } });
  dns.script(NAME, { A: addresses("192.0.2.1") });
  const hanging = names.map((name) =>
    resolver.resolve(name, { signal: stop.signal, accountId: 1 }),
  );

  const answer = await resolver.resolve(NAME, {
    signal: new AbortController().signal,
    accountId: 2,
  });

  assert.deepEqual(answer, { kind: "addresses", addresses: ["192.0.2.1"] });
  const asked = new Set(dns.questions.map(({ name }) => name));
  assert.ok(asked.size <= 97, `${asked.size} names were asked for`);
  stop.abort();
  for (const each of await Promise.all(hanging)) assert.equal(each.kind, "failed");
});

test("closing ends what is under way and refuses what comes after", async (t) => {
  const { dns, resolver, resolve } = await setUp(t);
  dns.script(NAME, { A: { kind: "silence" }, AAAA: { kind: "silence" } });

  const resolving = resolve();
  await dns.waitFor(2);
  resolver.close();

  const cut = { kind: "failed", error: "name resolution was cut short" };
  assert.deepEqual(await resolving, cut);
  assert.deepEqual(await resolve(), cut);
});

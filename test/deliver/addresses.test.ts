import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import type { DnsAnswer, DnsServer } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import type { Receiver } from "../helpers/receiver.ts";
import { startAmongTraps, startTrap } from "../helpers/trap.ts";
import type { Trap } from "../helpers/trap.ts";
import { startBlackHole } from "./black-hole.ts";
import { requestTo, startSender, toTarget } from "./sender-setup.ts";

// Some containers have no IPv6 at all, not even its loopback address.
const HAS_IPV6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === "::1"),
);
const LINUX_ONLY = {
  skip: process.platform === "linux" ? false : "how a full backlog behaves is the kernel's own",
};
const IPV6_ONLY = { skip: HAS_IPV6 ? false : "this machine has no IPv6" };

/**
 * A receiver on 127.0.0.1, which is allowed and stands for the public Internet here, and traps on the
 * same port of addresses that are not allowed. Every address in this file is loopback, so that nothing
 * leaves the machine even when the code under test is wrong; other ranges are the judge's own tests.
 */
async function startNetwork(t: TestContext): Promise<{
  readonly dns: DnsServer;
  readonly receiver: Receiver;
  readonly traps: readonly Trap[];
  readonly url: string;
}> {
  const dns = await startDnsServer(t);
  const hosts = ["127.0.0.2", "127.9.9.9", ...(HAS_IPV6 ? ["::1"] : [])];
  const { receiver, traps } = await startAmongTraps(t, { traps: hosts });
  return { dns, receiver, traps, url: `http://hooks.example.com:${receiver.port}/hook` };
}

const REFUSED: readonly (readonly [string, DnsAnswer, DnsAnswer, string])[] = [
  ["a refused address", addresses("127.0.0.2"), addresses(), "127.0.0.2"],
  [
    "an allowed and a refused address",
    addresses("127.0.0.1", "127.0.0.2"),
    addresses(),
    "127.0.0.2",
  ],
  [
    "a refused and an allowed address",
    addresses("127.0.0.2", "127.0.0.1"),
    addresses(),
    "127.0.0.2",
  ],
  ["a refused address of the other family", addresses("127.0.0.1"), addresses("::1"), "::1"],
  ["a refused IPv6 address alone", addresses(), addresses("::1"), "::1"],
  ["an IPv4-mapped address", addresses(), addresses("::ffff:7f00:2"), "127.0.0.2"],
  ["the unspecified address", addresses("0.0.0.0"), addresses("::"), "0.0.0.0"],
  [
    "a CNAME to localhost",
    {
      kind: "records",
      records: [
        { type: "CNAME", value: "localhost" },
        { type: "A", name: "localhost", value: "127.0.0.2" },
      ],
    },
    addresses(),
    "127.0.0.2",
  ],
];

for (const [what, ipv4, ipv6, refused] of REFUSED) {
  test(`a name that resolves to ${what} is refused, and nothing is dialled`, async (t) => {
    const { dns, receiver, traps, url } = await startNetwork(t);
    dns.script("hooks.example.com", { A: ipv4, AAAA: ipv6 });

    const result = await startSender(t, dns).send(requestTo(url));

    assert.equal(result.outcome, "refused");
    assert.equal(result.address, null);
    assert.equal(result.httpStatus, null);
    assert.equal(result.phases.connectMs, null);
    assert.equal(result.refusal?.host, "hooks.example.com");
    assert(result.refusal.rule.length > 0);
    assert.match(result.error ?? "", /webhooks\.allow/);
    assert(result.error?.includes(refused), `${refused} is not named`);
    for (const trap of traps) assert.equal(trap.connections, 0);
    assert.equal(receiver.connectionsSeen, 0);
  });
}

test("a refusal states every address that the name resolved to", async (t) => {
  const { dns, url } = await startNetwork(t);
  dns.script("hooks.example.com", {
    A: addresses("127.0.0.1", "127.0.0.2"),
    AAAA: addresses("::1"),
  });

  const result = await startSender(t, dns).send(requestTo(url));

  assert.deepEqual(result.refusal?.addresses, ["127.0.0.1", "::1", "127.0.0.2"]);
});

test("a refusal of a long answer states 16 addresses, the refused one among them", async (t) => {
  const { dns, url } = await startNetwork(t);
  const many = Array.from({ length: 90 }, (_, index) => `127.0.1.${index}`);
  dns.script("hooks.example.com", { A: addresses(...many, "127.0.2.1") });

  const allow = ["127.0.1.0/24"];
  const result = await startSender(t, { servers: dns.servers, allow }).send(requestTo(url));

  assert.equal(result.outcome, "refused");
  assert.equal(result.refusal?.addresses.length, 16);
  assert.equal(result.refusal.addresses[0], "127.0.2.1");
});

test("a name that turns from allowed to refused between attempts is refused, its connection unused", async (t) => {
  const { dns, receiver, traps, url } = await startNetwork(t);
  dns.script("hooks.example.com", {
    A: [addresses("127.0.0.1"), addresses("127.0.0.2"), addresses("127.0.0.1")],
  });
  const sender = startSender(t, dns);

  const outcomes = [];
  for (let attempt = 0; attempt < 3; attempt++) {
    outcomes.push((await sender.send(requestTo(url))).outcome);
  }

  assert.deepEqual(outcomes, ["delivered", "refused", "delivered"]);
  assert.equal(receiver.requests.length, 2);
  assert.equal(traps[0]?.connections, 0);
});

test("a kept connection is used only when this attempt's own answer holds its address", async (t) => {
  const dns = await startDnsServer(t);
  const first = await startReceiver(t, { host: "127.0.0.1" });
  const second = await startReceiver(t, { host: "127.0.0.3", port: first.port });
  dns.script("hooks.example.com", {
    A: [addresses("127.0.0.1"), addresses("127.0.0.3"), addresses("127.0.0.3", "127.0.0.1")],
  });
  const sender = startSender(t, { servers: dns.servers, allow: ["127.0.0.0/8"] });
  const url = `http://hooks.example.com:${first.port}/`;

  const dialled = [];
  for (let attempt = 0; attempt < 3; attempt++) {
    dialled.push((await sender.send(requestTo(url))).address);
  }

  assert.deepEqual(dialled, ["127.0.0.1", "127.0.0.3", "127.0.0.3"]);
  assert.equal(first.requests.length, 1);
  assert.equal(second.connectionsSeen, 1);
});

for (const address of ["127.0.0.2", "[::1]", "[::ffff:127.0.0.2]"]) {
  test(`a literal address is judged too: ${address}`, async (t) => {
    const { dns, traps, receiver } = await startNetwork(t);
    const target = toTarget(`http://${address}:${receiver.port}/`);

    const result = await startSender(t, dns).send(requestTo(receiver.url(), { target }));

    assert.equal(result.outcome, "refused");
    assert.deepEqual(result.refusal?.addresses, [target.host]);
    assert.equal(result.phases.dnsMs, null);
    assert.deepEqual(dns.questions, []);
    for (const trap of traps) assert.equal(trap.connections, 0);
  });
}

test("a target that claims to be an address and is none is refused, not looked up", async (t) => {
  const { receiver } = await startNetwork(t);
  const target = { ...toTarget(receiver.url()), host: "localhost", isAddress: true };

  const result = await startSender(t, { allow: ["localhost"] }).send(
    requestTo(receiver.url(), { target }),
  );

  assert.equal(result.outcome, "refused");
  assert.equal(receiver.connectionsSeen, 0);
});

test("an allowed host may resolve to anything", async (t) => {
  const { dns, url, receiver } = await startNetwork(t);
  dns.script("hooks.example.com", { A: addresses("127.0.0.1") });

  const result = await startSender(t, { servers: dns.servers, allow: ["hooks.example.com"] }).send(
    requestTo(url),
  );

  assert.equal(result.outcome, "delivered");
  assert.equal(receiver.requests[0]?.headers["host"], `hooks.example.com:${receiver.port}`);
});

test("an IPv6 receiver is reached", IPV6_ONLY, async (t) => {
  const receiver = await startReceiver(t, { host: "::1" });

  const result = await startSender(t, { allow: ["::1"] }).send(requestTo(receiver.url("/v6")));

  assert.equal(result.outcome, "delivered");
  assert.equal(result.address, "::1");
  assert.equal(receiver.requests[0]?.headers["host"], `[::1]:${receiver.port}`);
});

for (const [what, answer, error] of [
  ["does not exist", { kind: "nxdomain" }, "name not found"],
  ["has no addresses", addresses(), "no addresses"],
  [
    "is a CNAME to nothing",
    { kind: "records", records: [{ type: "CNAME", value: "gone.example.com" }] },
    "no addresses",
  ],
  ["cannot be looked up", { kind: "servfail" }, "name server failed"],
  ["is not answered for", { kind: "refused" }, "name server refused to answer"],
  ["is answered with garbage", { kind: "garbage" }, "name server gave a broken answer"],
] as const) {
  test(`a name that ${what} is a failure, which is retried, not a refusal`, async (t) => {
    const { dns, url } = await startNetwork(t);
    dns.script("hooks.example.com", { A: answer, AAAA: answer });

    const result = await startSender(t, dns).send(requestTo(url));

    assert.equal(result.outcome, "failed");
    assert.equal(result.error, error);
    assert.equal(result.address, null);
    assert.notEqual(result.phases.dnsMs, null);
  });
}

test("the deadline covers a name server that is silent", async (t) => {
  const { dns, url, receiver } = await startNetwork(t);
  dns.script("hooks.example.com", { A: { kind: "silence" }, AAAA: { kind: "silence" } });
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { servers: dns.servers, clock }).send(requestTo(url));
  await dns.waitFor(2);
  clock.advance(10_000);

  const result = await sent;
  assert.equal(result.outcome, "timed_out");
  assert.equal(result.error, "timed out while resolving the name");
  assert.equal(result.phases.dnsMs, 10_000);
  assert.equal(receiver.connectionsSeen, 0);
});

for (const [stage, scheme, error] of [
  ["answer", "http", "timed out waiting for the answer"],
  ["TLS handshake", "https", "timed out during the TLS handshake"],
] as const) {
  test(`name and ${stage} share one deadline: what one took, the other has not`, async (t) => {
    const dns = await startDnsServer(t);
    const gate = createGate();
    const answer = addresses("127.0.0.1");
    dns.script("hooks.example.com", { A: { kind: "held", until: gate.opened, answer } });
    const silent = await startTrap(t);
    const clock = createFakeClock({ now: 0 });
    const sender = startSender(t, { servers: dns.servers, clock });

    const sent = sender.send(requestTo(`${scheme}://hooks.example.com:${silent.port}/`));
    await dns.waitFor(2);
    clock.advance(6000);
    gate.open();
    await silent.written;
    clock.advance(3999);
    assert.deepEqual(clock.pending(), [1]);
    clock.advance(1);

    const result = await sent;
    assert.equal(result.outcome, "timed_out");
    assert.equal(result.error, error);
    assert.equal(result.phases.dnsMs, 6000);
    await silent.released;
  });
}

test("aborting ends an attempt that is still resolving", async (t) => {
  const { dns, url } = await startNetwork(t);
  dns.script("hooks.example.com", { A: { kind: "silence" }, AAAA: { kind: "silence" } });
  const sender = startSender(t, dns);

  const sent = sender.send(requestTo(url));
  await dns.waitFor(2);
  sender.abort();

  assert.equal((await sent).outcome, "interrupted");
});

test(
  "the next address is tried when one cannot be connected, IPv4 before IPv6",
  IPV6_ONLY,
  async (t) => {
    const dns = await startDnsServer(t);
    const receiver = await startReceiver(t, { host: "::1" });
    dns.script("hooks.example.com", { A: addresses("127.0.0.4"), AAAA: addresses("::1") });
    const sender = startSender(t, { servers: dns.servers, allow: ["127.0.0.0/8", "::1"] });

    const result = await sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`));

    assert.equal(result.outcome, "delivered");
    assert.equal(result.address, "::1");
  },
);

test("an address that swallows packets leaves time for the next one", LINUX_ONLY, async (t) => {
  const receiver = await startReceiver(t);
  await startBlackHole(t, { host: "127.0.0.8", port: receiver.port });
  const hosts = ["127.0.0.8", "127.0.0.1"].map((address) => `${address} hooks.example.com`);
  const clock = createFakeClock({ now: 0 });
  const sender = startSender(t, { hosts, allow: ["127.0.0.0/8"], clock });

  const sent = sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`));
  await clock.whenPending(2);
  assert.deepEqual(clock.pending(), [5000, 10_000]);
  clock.advance(5000);

  const result = await sent;
  assert.equal(result.outcome, "delivered");
  assert.equal(result.address, "127.0.0.1");
  assert.equal(result.phases.connectMs, 5000);
});

test("the deadline covers a connection that does not come about", LINUX_ONLY, async (t) => {
  const receiver = await startReceiver(t, { host: "127.0.0.1" });
  await startBlackHole(t, { host: "127.0.0.8", port: receiver.port });
  const clock = createFakeClock({ now: 0 });
  const sender = startSender(t, { allow: ["127.0.0.0/8"], clock });

  const sent = sender.send(requestTo(`http://127.0.0.8:${receiver.port}/`));
  await clock.whenPending(1);
  clock.advance(10_000);

  const result = await sent;
  assert.equal(result.outcome, "timed_out");
  assert.equal(result.error, "timed out while connecting");
  assert.equal(result.address, "127.0.0.8");
});

test(
  "a connection that leads to another address than the vetted one is not written to",
  LINUX_ONLY,
  async (t) => {
    // To Linux the unspecified address is the loopback address, which nobody allowed here.
    const receiver = await startReceiver(t, { host: "127.0.0.1" });
    const sender = startSender(t, { allow: ["0.0.0.0"] });
    const target = { ...toTarget(receiver.url()), host: "0.0.0.0" };

    const result = await sender.send(requestTo(receiver.url(), { target }));

    assert.equal(result.outcome, "failed");
    assert.equal(result.error, "connection reached another address");
    assert.equal(result.address, "0.0.0.0");
    await receiver.whenDisconnected();
    assert.equal(receiver.requests.length, 0);
  },
);

test("a receiver that resets what it accepts is a failure, whenever the reset comes", async (t) => {
  const server = createServer((socket) => socket.resetAndDestroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const bound = server.address();
  assert(typeof bound === "object" && bound !== null);
  const sender = startSender(t);

  for (let attempt = 0; attempt < 50; attempt++) {
    const result = await sender.send(requestTo(`http://127.0.0.1:${bound.port}/`));
    assert.equal(result.outcome, "failed");
    assert.match(
      result.error ?? "",
      /^connection was closed (while connecting|without an answer)$/,
    );
  }
});

const DEAD_IPV4 = ["127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.8"] as const;

test("IPv6 is tried second, however many IPv4 addresses refuse", IPV6_ONLY, async (t) => {
  const dns = await startDnsServer(t);
  const receiver = await startReceiver(t, { host: "::1" });
  dns.script("hooks.example.com", { A: addresses(...DEAD_IPV4), AAAA: addresses("::1") });
  const sender = startSender(t, { servers: dns.servers, allow: ["127.0.0.0/8", "::1"] });

  const result = await sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`));

  assert.deepEqual([result.outcome, result.address], ["delivered", "::1"]);
});

test("a second IPv4 address is tried after an IPv6 address that is dead", IPV6_ONLY, async (t) => {
  const dns = await startDnsServer(t);
  const receiver = await startReceiver(t, { host: "127.0.0.5" });
  dns.script("hooks.example.com", { A: addresses(...DEAD_IPV4), AAAA: addresses("::1") });
  const sender = startSender(t, { servers: dns.servers, allow: ["127.0.0.0/8", "::1"] });

  const result = await sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`));

  assert.deepEqual([result.outcome, result.address], ["delivered", "127.0.0.5"]);
});

test(
  "IPv6 gets two thirds of the time, however many IPv4 addresses swallow packets",
  { skip: LINUX_ONLY.skip || IPV6_ONLY.skip },
  async (t) => {
    const receiver = await startReceiver(t, { host: "::1" });
    for (const host of DEAD_IPV4) await startBlackHole(t, { host, port: receiver.port });
    const hosts = [...DEAD_IPV4, "::1"].map((address) => `${address} hooks.example.com`);
    const clock = createFakeClock({ now: 0 });
    const sender = startSender(t, {
      hosts,
      allow: ["127.0.0.0/8", "::1"],
      clock,
      timeoutMs: 9000,
    });

    const sent = sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`));
    await clock.whenPending(2);
    assert.deepEqual(clock.pending(), [3000, 9000]);
    clock.advance(3000);

    const result = await sent;
    assert.deepEqual([result.outcome, result.address], ["delivered", "::1"]);
    assert.equal(result.phases.connectMs, 3000);
  },
);

test("at most three addresses are tried", async (t) => {
  const dns = await startDnsServer(t);
  const receiver = await startReceiver(t, { host: "127.0.0.7" });
  dns.script("hooks.example.com", {
    A: addresses("127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7"),
  });
  const sender = startSender(t, { servers: dns.servers, allow: ["127.0.0.0/8"] });

  const result = await sender.send(requestTo(`http://hooks.example.com:${receiver.port}/`));

  assert.equal(result.outcome, "failed");
  assert.equal(result.error, "connection was refused");
  assert.equal(result.address, "127.0.0.6");
  assert.equal(receiver.connectionsSeen, 0);
});

test("an answer of thousands of addresses is a failure, not a day's work", async (t) => {
  const { dns, url } = await startNetwork(t);
  const many = Array.from({ length: 1000 }, (_, index) => `127.1.${index >> 8}.${index & 255}`);
  dns.script("hooks.example.com", { A: addresses(...many) });

  const result = await startSender(t, dns).send(requestTo(url));

  assert.equal(result.outcome, "failed");
  assert.equal(result.error, "too many addresses");
});

import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import type { DnsAnswer, DnsScript, DnsServer } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import type { Receiver } from "../helpers/receiver.ts";
import { startAmongTraps, startTrap } from "../helpers/trap.ts";
import type { Trap } from "../helpers/trap.ts";
import {
  requestTo,
  startBlackHole,
  startByteServer,
  startSender,
  toTarget,
} from "./sender-setup.ts";

// Some containers have no IPv6 at all, not even its loopback address.
const HAS_IPV6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === "::1"),
);
const LINUX_ONLY = {
  skip: process.platform === "linux" ? false : "kernels differ in the behaviour of a full backlog",
};
const IPV6_ONLY = { skip: HAS_IPV6 ? false : "this machine has no IPv6" };

/**
 * A receiver on 127.0.0.1, the only allowed address, and traps on the same port of other addresses. All of them are
 * loopback: no packet leaves the machine, even if the code under test is wrong.
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

/** DNS records that have an attempt refused, and the address in the refusal. */
const REFUSED: Readonly<Record<string, readonly [DnsScript, refused: string]>> = {
  "a refused address": [{ A: addresses("127.0.0.2") }, "127.0.0.2"],
  "an allowed and a refused one": [{ A: addresses("127.0.0.1", "127.0.0.2") }, "127.0.0.2"],
  "a refused and an allowed one": [{ A: addresses("127.0.0.2", "127.0.0.1") }, "127.0.0.2"],
  "a refused one of the other family": [
    { A: addresses("127.0.0.1"), AAAA: addresses("::1") },
    "::1",
  ],
  "a refused IPv6 address alone": [{ AAAA: addresses("::1") }, "::1"],
  "a refused address next to a failed family": [
    { A: addresses("127.0.0.2"), AAAA: { kind: "servfail" } },
    "127.0.0.2",
  ],
  "an IPv4-mapped address": [{ AAAA: addresses("::ffff:7f00:2") }, "127.0.0.2"],
  "the unspecified address": [{ A: addresses("0.0.0.0"), AAAA: addresses("::") }, "0.0.0.0"],
  "a CNAME to localhost": [{ A: cnameTo("localhost") }, "127.0.0.2"],
  "a CNAME to a private name": [{ A: cnameTo("printer.lan") }, "127.0.0.2"],
};

function cnameTo(name: string): DnsAnswer {
  return {
    kind: "records",
    records: [
      { type: "CNAME", value: name },
      { type: "A", name, value: "127.0.0.2" },
    ],
  };
}

test("a name that resolves to a refused address is refused without a connection", async (t) => {
  const { dns, receiver, traps, url } = await startNetwork(t);
  const sender = startSender(t, dns);
  for (const [answers, [script, refused]] of Object.entries(REFUSED)) {
    dns.script("hooks.example.com", { A: addresses(), AAAA: addresses(), ...script });

    const { outcome, address, httpStatus, phases, refusal, error } = await sender.send(
      requestTo(url),
    );

    assert.deepEqual([outcome, address, httpStatus], ["refused", null, null], answers);
    assert.equal(phases.connectMs, null);
    assert.equal(refusal?.host, "hooks.example.com");
    assert(refusal.rule.length > 0);
    assert(error?.includes("webhooks.allow") && error.includes(refused), `${answers}: ${error}`);
  }
  for (const trap of traps) assert.equal(trap.connections, 0);
  assert.equal(receiver.connectionsSeen, 0);
});

test("a refusal has the addresses of the name, at most 16 with the refused address first", async (t) => {
  const { dns, url } = await startNetwork(t);
  const many = Array.from({ length: 90 }, (_, index) => `127.0.1.${index}`);
  dns.script("hooks.example.com", {
    A: [addresses("127.0.0.1", "127.0.0.2"), addresses(...many, "127.0.2.1")],
    AAAA: [addresses("::1"), addresses()],
  });
  const setup = { servers: dns.servers, allow: ["127.0.0.1", "127.0.1.0/24"] };
  const sender = startSender(t, setup);

  const few = await sender.send(requestTo(url));
  const cut = await sender.send(requestTo(url));

  assert.deepEqual(few.refusal?.addresses, ["127.0.0.1", "::1", "127.0.0.2"]);
  assert.equal(cut.refusal?.addresses.length, 16);
  assert.equal(cut.refusal.addresses[0], "127.0.2.1");
});

test("a name that changes to a refused address between attempts is refused, and its connection stays unused", async (t) => {
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

test("a kept connection is used only if its address is in the attempt's own look-up", async (t) => {
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

test("a literal address is judged without a look-up", async (t) => {
  const { dns, traps, receiver } = await startNetwork(t);
  const sender = startSender(t, dns);
  for (const address of ["127.0.0.2", "[::1]", "[::ffff:127.0.0.2]"]) {
    const target = toTarget(`http://${address}:${receiver.port}/`);

    const { outcome, refusal, phases } = await sender.send(requestTo(receiver.url(), { target }));

    assert.equal(outcome, "refused");
    assert.deepEqual(refusal?.addresses, [target.host]);
    assert.equal(phases.dnsMs, null);
  }
  assert.deepEqual(dns.questions, []);
  for (const trap of traps) assert.equal(trap.connections, 0);
});

test("a target with a name in place of an address is refused without a look-up", async (t) => {
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

test("the deadline covers a name server that is silent", async (t) => {
  const { dns, url, receiver } = await startNetwork(t);
  dns.script("hooks.example.com", { A: { kind: "silence" }, AAAA: { kind: "silence" } });
  const clock = createFakeClock({ now: 0 });

  const sent = startSender(t, { servers: dns.servers, clock }).send(requestTo(url));
  await dns.waitFor(2);
  clock.advance(10_000);

  const result = await sent;
  assert.equal(result.outcome, "timed_out");
  assert.match(result.error ?? "", /resolving/);
  assert.equal(result.phases.dnsMs, 10_000);
  assert.equal(receiver.connectionsSeen, 0);
});

for (const [stage, scheme] of [
  ["response", "http"],
  ["TLS handshake", "https"],
] as const) {
  test(`look-up and ${stage} share one deadline`, async (t) => {
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
    assert.equal(result.phases.dnsMs, 6000);
    await silent.released;
  });
}

test("an abort ends an attempt during its look-up", async (t) => {
  const { dns, url } = await startNetwork(t);
  dns.script("hooks.example.com", { A: { kind: "silence" }, AAAA: { kind: "silence" } });
  const sender = startSender(t, dns);

  const sent = sender.send(requestTo(url));
  await dns.waitFor(2);
  sender.abort();

  assert.equal((await sent).outcome, "interrupted");
});

test("the deadline covers a connection attempt that hangs", LINUX_ONLY, async (t) => {
  const receiver = await startReceiver(t, { host: "127.0.0.1" });
  await startBlackHole(t, { host: "127.0.0.8", port: receiver.port });
  const clock = createFakeClock({ now: 0 });
  const sender = startSender(t, { allow: ["127.0.0.0/8"], clock });

  const sent = sender.send(requestTo(`http://127.0.0.8:${receiver.port}/`));
  await clock.whenPending(1);
  clock.advance(10_000);

  const result = await sent;
  assert.equal(result.outcome, "timed_out");
  assert.match(result.error ?? "", /connecting/);
  assert.equal(result.address, "127.0.0.8");
});

test(
  "nothing is written to a connection that reached another address than the allowed one",
  LINUX_ONLY,
  async (t) => {
    // Linux connects the unspecified address to the loopback address, which is not allowed here.
    const receiver = await startReceiver(t, { host: "127.0.0.1" });
    const sender = startSender(t, { allow: ["0.0.0.0"] });
    const target = { ...toTarget(receiver.url()), host: "0.0.0.0" };

    const result = await sender.send(requestTo(receiver.url(), { target }));

    assert.equal(result.outcome, "failed");
    assert.match(result.error ?? "", /another address/);
    assert.equal(result.address, "0.0.0.0");
    await receiver.whenDisconnected();
    assert.equal(receiver.requests.length, 0);
  },
);

test("a receiver that resets each new connection fails the attempt", async (t) => {
  const { port } = await startByteServer(t, (socket) => socket.resetAndDestroy());
  const sender = startSender(t);

  // The reset comes during or after the connect.
  for (let attempt = 0; attempt < 50; attempt++) {
    const result = await sender.send(requestTo(`http://127.0.0.1:${port}/`));
    assert.equal(result.outcome, "failed");
    assert.match(result.error ?? "", /closed/);
  }
});

const DEAD_IPV4 = ["127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.8"] as const;

/** The addresses of a name, the only one that listens, and the address of the attempt's result. */
const ORDERS: readonly (readonly [
  order: string,
  answers: { readonly ipv4: readonly string[]; readonly ipv6: readonly string[] },
  listens: string,
  result: readonly [outcome: string, address: string],
])[] = [
  ["second, after IPv4", { ipv4: DEAD_IPV4, ipv6: ["::1"] }, "::1", ["delivered", "::1"]],
  [
    "third, an IPv4 address after a dead IPv6 address",
    { ipv4: DEAD_IPV4, ipv6: ["::1"] },
    "127.0.0.5",
    ["delivered", "127.0.0.5"],
  ],
  [
    "fourth, which is not tried",
    { ipv4: DEAD_IPV4, ipv6: [] },
    "127.0.0.8",
    ["failed", "127.0.0.6"],
  ],
];

for (const [order, { ipv4, ipv6 }, listens, result] of ORDERS) {
  test(
    `an address that refuses connections is followed by the next: the live one is ${order}`,
    IPV6_ONLY,
    async (t) => {
      const dns = await startDnsServer(t);
      const receiver = await startReceiver(t, { host: listens });
      dns.script("hooks.example.com", { A: addresses(...ipv4), AAAA: addresses(...ipv6) });
      const sender = startSender(t, { servers: dns.servers, allow: ["127.0.0.0/8", "::1"] });

      const { outcome, address } = await sender.send(
        requestTo(`http://hooks.example.com:${receiver.port}/`),
      );

      assert.deepEqual([outcome, address], result);
    },
  );
}

test(
  "IPv6 gets two thirds of the time if all IPv4 addresses drop packets",
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

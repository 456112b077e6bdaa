import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import type { DnsAnswer, DnsScript, DnsServer } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import type { FakeClock } from "../helpers/fake-clock.ts";
import type { Receiver } from "../helpers/receiver.ts";
import { startAmongTraps, startTrap } from "../helpers/trap.ts";
import type { Trap } from "../helpers/trap.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const TICK_MS = 1000;
const NAME = "hooks.example.com";
// Stands for the public Internet: allowed, and on this machine. Other loopback addresses are refused.
const PUBLIC = "127.10.0.1";
const PUBLIC_TOO = "127.10.0.2";
const REFUSED = "127.20.0.1";
const HAS_IPV6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === "::1"),
);

interface Setup {
  readonly clock: FakeClock;
  readonly dns: DnsServer;
  readonly receiver: Receiver;
  readonly traps: readonly Trap[];
  readonly daemon: TestDaemon;
}

interface ShownAttempt {
  readonly number: number;
  readonly outcome: string | null;
  readonly http_status: number | null;
  readonly error: string | null;
  readonly address: string | null;
  readonly refusal: object | null;
}

interface ShownDelivery {
  readonly state: string;
  readonly next_attempt_at: string | null;
  readonly attempts: readonly ShownAttempt[];
}

/** The real daemon, asking a name server of the test's own; traps wait wherever nothing may arrive. */
async function setUp(t: TestContext, answers: DnsScript): Promise<Setup> {
  const clock = createFakeClock({ now: NOW });
  const dns = await startDnsServer(t);
  dns.script(NAME, answers);
  const hosts = ["127.0.0.1", REFUSED, "127.255.255.254", ...(HAS_IPV6 ? ["::1"] : [])];
  const { receiver, traps } = await startAmongTraps(t, { host: PUBLIC, traps: hosts });
  const toml = `[webhooks]\nallow = ["127.10.0.0/16"]\ndns_servers = ["${dns.servers.join('", "')}"]\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  return { clock, dns, receiver, traps, daemon };
}

async function post({ daemon, receiver }: Setup): Promise<string> {
  const posted = await daemon.post({ postback_url: `http://${NAME}:${receiver.port}/hook?key=1` });
  const [task] = posted.tasks;
  assert.equal(task?.status_code, 20100);
  return task.id;
}

async function pass({ clock, daemon }: Setup, ms: number): Promise<void> {
  clock.advance(ms);
  await daemon.daemon.idle();
}

async function show({ daemon }: Setup, id: string): Promise<ShownDelivery> {
  const answer = await daemon.call(`/v1/tasks/deliveries/${id}`);
  // The shape is the contract's; a test that reads a field that is not there fails by itself.
  const { deliveries } = (await answer.json()) as { readonly deliveries: readonly ShownDelivery[] };
  const [delivery] = deliveries;
  assert(delivery !== undefined && deliveries.length === 1);
  return delivery;
}

function facts(attempt: ShownAttempt | undefined): object {
  const { outcome, http_status, error, address, refusal } = attempt ?? assert.fail();
  return { outcome, http_status, error, address, refusal };
}

function refused(address: string, listed: readonly string[], rule: string): object {
  const error =
    `The host ${NAME} resolves to ${address}, which is refused by the rule '${rule}': ` +
    `use a public address, or add "${address}" to webhooks.allow, a setting of the operator.`;
  const refusal = { host: NAME, addresses: listed, rule };
  return { outcome: "refused", http_status: null, error, address: null, refusal };
}

function failed(error: string): object {
  return { outcome: "failed", http_status: null, error, address: null, refusal: null };
}

function assertUntouched({ traps }: Setup): void {
  for (const trap of traps) assert.equal(trap.connections, 0, `${trap.host} was connected to`);
}

const LOOPBACK_4 = "loopback (RFC 1122)";
const LOOPBACK_6 = "loopback (RFC 4291)";

const REFUSALS: readonly (readonly [what: string, DnsScript, attempt: object])[] = [
  ["a refused address", { A: addresses(REFUSED) }, refused(REFUSED, [REFUSED], LOOPBACK_4)],
  [
    "two allowed addresses and a refused one",
    { A: addresses(PUBLIC, PUBLIC_TOO, REFUSED) },
    refused(REFUSED, [PUBLIC, PUBLIC_TOO, REFUSED], LOOPBACK_4),
  ],
  [
    "a refused address and an allowed one",
    { A: addresses(REFUSED, PUBLIC) },
    refused(REFUSED, [REFUSED, PUBLIC], LOOPBACK_4),
  ],
  [
    "an allowed IPv4 and a refused IPv6 address",
    { A: addresses(PUBLIC), AAAA: addresses("::1") },
    refused("::1", [PUBLIC, "::1"], LOOPBACK_6),
  ],
  ["a refused IPv6 address", { AAAA: addresses("::1") }, refused("::1", ["::1"], LOOPBACK_6)],
  [
    "a CNAME to localhost",
    { A: cnameTo("localhost", "127.0.0.1"), AAAA: cnameTo("localhost", "::1") },
    refused("127.0.0.1", ["127.0.0.1", "::1"], LOOPBACK_4),
  ],
  [
    "a CNAME to a name of a private network",
    { A: cnameTo("printer.lan", REFUSED) },
    refused(REFUSED, [REFUSED], LOOPBACK_4),
  ],
  [
    "an address next to a family that fails",
    { A: addresses(REFUSED), AAAA: { kind: "servfail" } },
    refused(REFUSED, [REFUSED], LOOPBACK_4),
  ],
];

for (const [what, answers, attempt] of REFUSALS) {
  test(`a delivery whose name resolves to ${what} is refused for good, and nothing is dialled`, async (t) => {
    const setup = await setUp(t, answers);
    const id = await post(setup);
    await setup.daemon.daemon.idle();
    const asked = setup.dns.questions.length;
    await pass(setup, 60 * MINUTE_MS);

    const delivery = await show(setup, id);

    assert.equal(delivery.state, "refused");
    assert.equal(delivery.next_attempt_at, null);
    assert.deepEqual(delivery.attempts.map(facts), [attempt]);
    assert.equal(setup.dns.questions.length, asked, "a refused delivery is not tried again");
    assertUntouched(setup);
    assert.equal(setup.receiver.connectionsSeen, 0);
    assert.equal((await setup.daemon.get(id)).status_code, 20000);
    assert.doesNotMatch(setup.daemon.logLines.join(), /key=1/);
  });
}

test("a name that turns to a refused address between two attempts is refused at the second", async (t) => {
  const setup = await setUp(t, { A: [addresses(PUBLIC), addresses(REFUSED), addresses(PUBLIC)] });
  setup.receiver.answer({ kind: "status", status: 503 });
  const id = await post(setup);
  await setup.daemon.daemon.idle();
  // The connection of the first attempt is still open: it must not be what the second one uses.
  await pass(setup, MINUTE_MS + TICK_MS);
  await pass(setup, 60 * MINUTE_MS);

  const delivery = await show(setup, id);

  assert.equal(delivery.state, "refused");
  assert.deepEqual(delivery.attempts.map(facts), [
    {
      outcome: "failed",
      http_status: 503,
      error: "status is not 2xx",
      address: PUBLIC,
      refusal: null,
    },
    refused(REFUSED, [REFUSED], LOOPBACK_4),
  ]);
  assert.equal(setup.receiver.requests.length, 1);
  assertUntouched(setup);
});

test("a name that turns between two deliveries is refused, though a connection is kept for it", async (t) => {
  const setup = await setUp(t, { A: [addresses(PUBLIC), addresses(REFUSED)] });
  const first = await post(setup);
  await setup.daemon.daemon.idle();
  const second = await post(setup);
  await setup.daemon.daemon.idle();

  assert.equal((await show(setup, first)).state, "delivered");
  assert.deepEqual((await show(setup, second)).attempts.map(facts), [
    refused(REFUSED, [REFUSED], LOOPBACK_4),
  ]);
  assert.equal(setup.receiver.requests.length, 1);
  assertUntouched(setup);
});

const FAILURES: readonly (readonly [what: string, DnsAnswer, error: string])[] = [
  ["does not exist (NXDOMAIN)", { kind: "nxdomain" }, "name not found"],
  ["has no addresses", addresses(), "no addresses"],
  [
    "is a CNAME to nothing",
    { kind: "records", records: [{ type: "CNAME", value: "gone.example.com" }] },
    "no addresses",
  ],
  ["cannot be looked up (SERVFAIL)", { kind: "servfail" }, "name server failed"],
  ["is not answered for (REFUSED)", { kind: "refused" }, "name server refused to answer"],
  ["is answered with garbage", { kind: "garbage" }, "name server gave a broken answer"],
];

for (const [what, answer, error] of FAILURES) {
  test(`a delivery whose name ${what} fails and is retried, until the name is back`, async (t) => {
    const setup = await setUp(t, { A: answer, AAAA: answer });
    const id = await post(setup);
    await setup.daemon.daemon.idle();
    const before = await show(setup, id);
    setup.dns.script(NAME, { A: addresses(PUBLIC) });
    await pass(setup, MINUTE_MS + TICK_MS);

    const delivery = await show(setup, id);

    assert.deepEqual(facts(before.attempts[0]), failed(error));
    assert.equal(before.state, "scheduled");
    assert.equal(before.next_attempt_at, new Date(NOW + MINUTE_MS).toISOString());
    assert.equal(delivery.state, "delivered");
    assert.equal(delivery.attempts[1]?.address, PUBLIC);
    assertUntouched(setup);
  });
}

test("a name that never resolves is given up after the third retry", async (t) => {
  const setup = await setUp(t, { A: { kind: "nxdomain" }, AAAA: { kind: "nxdomain" } });
  const id = await post(setup);
  await setup.daemon.daemon.idle();
  for (const minutes of [1, 5, 15]) await pass(setup, minutes * MINUTE_MS + TICK_MS);

  const delivery = await show(setup, id);

  assert.equal(delivery.state, "given_up");
  assert.deepEqual(delivery.attempts.map(facts), Array(4).fill(failed("name not found")));
  assertUntouched(setup);
});

test("a name server that is silent takes an attempt no longer than ten seconds, and no other host along", async (t) => {
  const setup = await setUp(t, { A: { kind: "silence" }, AAAA: addresses(PUBLIC) });
  setup.dns.script("other.example.com", { A: addresses(PUBLIC) });
  const id = await post(setup);
  await setup.dns.waitFor(2);
  const other = `http://other.example.com:${setup.receiver.port}/other`;
  await setup.daemon.post({ postback_url: other });
  await setup.receiver.waitFor(1);
  await pass(setup, 10_000);

  const delivery = await show(setup, id);

  const timedOut = { ...failed("timed out while resolving the name"), outcome: "timed_out" };
  assert.deepEqual(delivery.attempts.slice(0, 1).map(facts), [timedOut]);
  assert.equal(delivery.state, "scheduled");
  assert.equal(delivery.next_attempt_at, new Date(NOW + 10_000 + MINUTE_MS).toISOString());
  assertUntouched(setup);
});

test("in real time too, a silent name server takes no longer than the setting", async (t) => {
  const dns = await startDnsServer(t);
  dns.script(NAME, { A: { kind: "silence" }, AAAA: { kind: "silence" } });
  const trap = await startTrap(t);
  const toml = `[webhooks]\ntimeout = "1s"\nallow = []\ndns_servers = ["${dns.servers.join()}"]\n`;
  const daemon = await startTestDaemon(t, { toml });
  const posted = await daemon.post({ postback_url: `http://${NAME}:${trap.port}/` });
  await daemon.daemon.idle();

  const answer = await daemon.call(`/v1/tasks/deliveries/${posted.tasks[0]?.id}`);
  const text = await answer.text();
  const [, startedAt = "", endedAt = ""] =
    /"started_at":"([^"]+)","ended_at":"([^"]+)","outcome":"timed_out"/.exec(text) ?? [];
  const tookMs = Date.parse(endedAt) - Date.parse(startedAt);
  // Its own patience is six seconds.
  assert(tookMs >= 990 && tookMs < 5500, `${tookMs} ms: ${text}`);
  assert.equal(trap.connections, 0);
});

/** A CNAME with the address of the name that it leads to. */
function cnameTo(name: string, value: string): DnsAnswer {
  const type = value.includes(":") ? "AAAA" : "A";
  return {
    kind: "records",
    records: [
      { type: "CNAME", value: name },
      { type, name, value },
    ],
  };
}

import assert from "node:assert/strict";
import { networkInterfaces } from "node:os";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Receiver } from "../helpers/receiver.ts";
import { startTrap } from "../helpers/trap.ts";

const HAS_IPV6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === "::1"),
);

/** What becomes of a webhook: delivered, refused when it is sent, or refused when it is posted. */
type Fate = "delivered" | "refused" | "not accepted";

// PORT is the receiver's, OTHER one where nobody may be connected to. The two names resolve to 127.0.0.1.
const CASES: readonly (readonly [
  allow: readonly string[],
  fates: Readonly<Record<string, Fate>>,
])[] = [
  [
    [],
    {
      "127.0.0.1:PORT": "not accepted",
      "localhost:PORT": "not accepted",
      "receiver.lan:PORT": "not accepted",
      "hooks.example.com:PORT": "refused",
    },
  ],
  [
    ["127.0.0.1:PORT"],
    {
      "127.0.0.1:PORT": "delivered",
      "2130706433:PORT": "delivered",
      "[::ffff:7f00:1]:PORT": "delivered",
      "hooks.example.com:PORT": "delivered",
      "127.0.0.1:OTHER": "not accepted",
      "127.0.0.2:PORT": "not accepted",
      "localhost:PORT": "not accepted",
      "receiver.lan:PORT": "not accepted",
      "hooks.example.com:OTHER": "refused",
    },
  ],
  [
    ["127.0.0.0/31"],
    {
      "127.0.0.1:PORT": "delivered",
      "hooks.example.com:PORT": "delivered",
      "127.0.0.2:PORT": "not accepted",
    },
  ],
  [
    ["receiver.lan:PORT"],
    {
      "receiver.lan:PORT": "delivered",
      "RECEIVER。Lan:PORT": "delivered",
      "receiver.lan:OTHER": "not accepted",
      "a.receiver.lan:PORT": "not accepted",
      "127.0.0.1:PORT": "not accepted",
      "hooks.example.com:PORT": "refused",
    },
  ],
  [
    ["hooks.example.com"],
    { "hooks.example.com:PORT": "delivered", "receiver.lan:PORT": "not accepted" },
  ],
  [["localhost"], { "localhost:PORT": "delivered", "127.0.0.1:PORT": "not accepted" }],
];
const IPV6_CASES: typeof CASES = [
  [
    ["[::1]:PORT"],
    {
      "[::1]:PORT": "delivered",
      "[0:0::1]:PORT": "delivered",
      "[::1]:OTHER": "not accepted",
      "127.0.0.1:PORT": "not accepted",
    },
  ],
  [["::/127"], { "[::1]:PORT": "delivered", "[::ffff:7f00:1]:PORT": "not accepted" }],
];

for (const [allow, fates] of [...CASES, ...(HAS_IPV6 ? IPV6_CASES : [])]) {
  test(`with webhooks.allow = ${JSON.stringify(allow)} what it names is delivered, and nothing else`, async (t) => {
    const isIpv6 = allow.some((entry) => entry.includes("::"));
    const receiver = await startReceiver(t, { host: isIpv6 ? "::1" : "127.0.0.1" });
    const trap = await startTrap(t, { host: receiver.host });
    const dns = await startDnsServer(t);
    for (const name of ["receiver.lan", "hooks.example.com"]) {
      dns.script(name, { A: addresses("127.0.0.1") });
    }
    const withPorts = (text: string): string =>
      text.replace("PORT", String(receiver.port)).replace("OTHER", String(trap.port));
    const entries = JSON.stringify(allow.map(withPorts));
    const toml = `[webhooks]\nallow = ${entries}\ndns_servers = ${JSON.stringify(dns.servers)}\n`;
    const daemon = await startTestDaemon(t, { toml });
    const targets = Object.keys(fates);

    const posted = await daemon.post(
      targets.map((target) => ({ postback_url: `http://${withPorts(target)}/` })),
    );
    await daemon.daemon.idle();

    const seen = posted.tasks.map(async (task, index) => [
      targets[index],
      await fateOf(daemon, task),
    ]);
    assert.deepEqual(Object.fromEntries(await Promise.all(seen)), fates);
    assert.equal(trap.connections, 0);
    assertArrived(receiver, Object.values(fates));
  });
}

for (const host of ["127.0.0.1", ...(HAS_IPV6 ? ["::1"] : [])]) {
  test(`what is taken off webhooks.allow is refused at the next attempt, and the record names it: ${host}`, async (t) => {
    const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
    const receiver = await startReceiver(t, { host, reply: { kind: "status", status: 500 } });
    const toml = `[webhooks]\nallow = ["${host}"]\n`;
    const before = await startTestDaemon(t, { clock, toml });
    const posted = await before.post({ postback_url: receiver.url("/hook") });
    await before.daemon.idle();
    await before.daemon.stop();

    const { folder, account } = before;
    const strict = { clock, folder, account, toml: "[webhooks]\nallow = []\n" };
    const after = await startTestDaemon(t, strict);
    clock.advance(61_000);
    await after.daemon.idle();

    const answer = await after.call(`/v1/tasks/deliveries/${posted.tasks[0]?.id}`);
    const text = await answer.text();
    const rule = `loopback (RFC ${host === "::1" ? 4291 : 1122})`;
    assert.match(text, /"state":"refused"/);
    assert(text.includes(JSON.stringify({ host, addresses: [host], rule })), text);
    assert.match(
      text,
      /"outcome":"refused","http_status":null,"error":"The address \S+ is refused by .*to webhooks\.allow/,
    );
    assert.equal(receiver.requests.length, 1);
  });
}

async function fateOf(
  daemon: TestDaemon,
  task: { readonly id: string; readonly status_code: number; readonly status_message: string },
): Promise<string> {
  if (task.status_code === 40501) {
    assert.match(task.status_message, /webhooks\.allow/);
    return "not accepted";
  }
  const answer = await daemon.call(`/v1/tasks/deliveries/${task.id}`);
  // The shape is the contract's; a test that reads a field that is not there fails by itself.
  const { deliveries } = (await answer.json()) as {
    readonly deliveries: readonly {
      state: string;
      attempts: readonly { error: string | null }[];
    }[];
  };
  const [delivery] = deliveries;
  if (delivery?.state === "refused") {
    assert.match(delivery.attempts[0]?.error ?? "", /webhooks\.allow/);
  }
  return delivery?.state ?? "no delivery";
}

function assertArrived(receiver: Receiver, fates: readonly Fate[]): void {
  assert.equal(receiver.requests.length, fates.filter((fate) => fate === "delivered").length);
}

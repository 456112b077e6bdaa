import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startTrap } from "../helpers/trap.ts";

/** The end of a webhook: it is delivered, refused at the attempt, or its post is rejected. */
type Fate = "delivered" | "refused" | "rejected";

// PORT is the receiver's, OTHER a trap's. Both names resolve to 127.0.0.1.
const CASES: readonly (readonly [
  allow: readonly string[],
  fates: Readonly<Record<string, Fate>>,
])[] = [
  [
    [],
    {
      "127.0.0.1:PORT": "rejected",
      "localhost:PORT": "rejected",
      "receiver.lan:PORT": "rejected",
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
      "127.0.0.1:OTHER": "rejected",
      "127.0.0.2:PORT": "rejected",
      "receiver.lan:PORT": "rejected",
      "hooks.example.com:OTHER": "refused",
    },
  ],
  [
    ["receiver.lan:PORT", "localhost"],
    {
      "receiver.lan:PORT": "delivered",
      "RECEIVER。Lan:PORT": "delivered",
      "localhost:PORT": "delivered",
      "receiver.lan:OTHER": "rejected",
      "a.receiver.lan:PORT": "rejected",
      "127.0.0.1:PORT": "rejected",
      "hooks.example.com:PORT": "refused",
    },
  ],
];

for (const [allow, fates] of CASES) {
  test(`webhooks.allow = ${JSON.stringify(allow)} allows its entries and nothing else`, async (t) => {
    const receiver = await startReceiver(t, { host: "127.0.0.1" });
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
    const delivered = Object.values(fates).filter((fate) => fate === "delivered");
    assert.equal(receiver.requests.length, delivered.length);
  });
}

test("a target that is removed from webhooks.allow is refused at the next attempt, with the rule on record", async (t) => {
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const before = await startTestDaemon(t, { clock });
  const posted = await before.post({ postback_url: receiver.url("/hook") });
  await before.daemon.idle();
  await before.daemon.stop();

  const { folder, account } = before;
  const strict = { clock, folder, account, toml: "[webhooks]\nallow = []\n" };
  const after = await startTestDaemon(t, strict);
  for (let minutes = 0; minutes < 60; minutes += 20) {
    clock.advance(20 * 60_000);
    await after.daemon.idle();
  }

  const { state, attempts } = await deliveryOf(after, posted.tasks[0]?.id ?? "");
  assert.equal(state, "refused");
  assert.equal(attempts.length, 2);
  const { outcome, http_status, refusal } = attempts[1] ?? assert.fail();
  assert.deepEqual([outcome, http_status], ["refused", null]);
  const rule = "loopback (RFC 1122)";
  assert.deepEqual(refusal, { host: "127.0.0.1", addresses: ["127.0.0.1"], rule });
  assert.equal(receiver.requests.length, 1);
});

interface ShownAttempt {
  readonly outcome: string | null;
  readonly http_status: number | null;
  readonly error: string | null;
  readonly refusal: object | null;
}

async function deliveryOf(daemon: TestDaemon, id: string) {
  const response = await daemon.call(`/v1/tasks/deliveries/${id}`);
  // The contract has this shape.
  const { deliveries } = (await response.json()) as {
    readonly deliveries: readonly {
      readonly state: string;
      readonly attempts: readonly ShownAttempt[];
    }[];
  };
  return deliveries[0] ?? assert.fail("no delivery");
}

async function fateOf(
  daemon: TestDaemon,
  task: { readonly id: string; readonly status_code: number; readonly status_message: string },
): Promise<string> {
  if (task.status_code === 40501) {
    assert.match(task.status_message, /webhooks\.allow/);
    return "rejected";
  }
  const { state, attempts } = await deliveryOf(daemon, task.id);
  if (state === "refused") assert.match(attempts[0]?.error ?? "", /webhooks\.allow/);
  return state;
}

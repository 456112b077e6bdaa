// Tests with private addresses that accept connections. private-ranges.test.ts runs them in a network namespace with
// these addresses. Outside a namespace they refuse to begin.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { test } from "node:test";
import type { TestContext } from "node:test";

import {
  addressNumber,
  ipv4Spellings,
  ipv4Wrappings,
  ipv6Spellings,
} from "../domain/special-addresses.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import type { DnsServer } from "../helpers/dns-server.ts";

const interfaces = networkInterfaces();
assert.deepEqual(
  Object.keys(interfaces),
  ["lo"],
  "outside a namespace packets could leave the machine",
);
const OWN = (interfaces["lo"] ?? []).map(({ address }) => address);
const PRIVATE = OWN.filter((address) => !/^127\.|^::1$|^93\.|^2606:/.test(address));
const HAS_IPV6 = OWN.includes("::1");
// Addresses of interfaces without a carrier, which Node does not list.
const UNLISTED = (process.env["UNLISTED"] ?? "")
  .split(" ")
  .filter((address) => address !== "" && (HAS_IPV6 || !address.includes(":")));
const PUBLIC = [...OWN.filter((address) => /^93\.|^2606:/.test(address)), ...UNLISTED];
assert(PRIVATE.length >= 9 && PUBLIC.length >= 1, OWN.join(" "));

const RULES: Readonly<Record<string, string>> = {
  "10.99.0.1": "private-use (RFC 1918)",
  "172.31.99.1": "private-use (RFC 1918)",
  "192.168.77.1": "private-use (RFC 1918)",
  "100.100.100.200": "shared address space (RFC 6598)",
  "169.254.169.254": "link-local (RFC 3927)",
  "168.63.129.16": "Azure platform address",
  "192.0.0.192": "IETF protocol assignments (RFC 6890)",
  "198.18.0.1": "benchmarking (RFC 2544)",
  "203.0.113.7": "documentation (RFC 5737)",
  "93.184.216.34": "address of this machine",
  "fd00:ec2::254": "unique-local (RFC 4193)",
  "2001:db8::7": "documentation (RFC 3849)",
  "2606:2800:220:1::34": "address of this machine",
  ...Object.fromEntries(UNLISTED.map((address) => [address, "address of this machine"])),
};

interface Shown {
  readonly state: string;
  readonly attempts: readonly {
    readonly outcome: string;
    readonly error: string | null;
    readonly address: string | null;
    readonly refusal: object | null;
  }[];
}

/** Accepts connections on every address of this network and records them. */
async function startTraps(t: TestContext): Promise<readonly string[]> {
  const reached: string[] = [];
  // The default ports, and the port of the spellings.
  for (const port of [80, 443, 8080]) {
    const server = createServer((socket) => {
      reached.push(`${socket.localAddress}:${port}`);
      socket.on("error", () => socket.destroy());
      socket.destroy();
    });
    server.listen({ host: OWN.some((each) => each.includes(":")) ? "::" : "0.0.0.0", port });
    await once(server, "listening");
    t.after(() => server.close());
  }
  await assertTrapped(reached);
  return reached;
}

// An unreachable trap would prove nothing.
async function assertTrapped(reached: string[]): Promise<void> {
  const probe = connect({ host: "169.254.169.254", port: 80 });
  probe.on("data", () => {});
  await once(probe, "close");
  assert.equal(reached.length, 1);
  assert.match(reached.pop() ?? "", /169\.254\.169\.254:80$/);
}

function settings(dns: DnsServer): string {
  return `[webhooks]\nallow = []\ndns_servers = ${JSON.stringify(dns.servers)}\n`;
}

async function deliveryOf(daemon: TestDaemon, id: string): Promise<Shown> {
  const answer = await daemon.call(`/v1/tasks/deliveries/${id}`);
  // The contract has this shape.
  const { deliveries } = (await answer.json()) as { readonly deliveries: readonly Shown[] };
  return deliveries[0] ?? assert.fail("no delivery");
}

test("no spelling of a private address is accepted, and no connection is made", async (t) => {
  const reached = await startTraps(t);
  const daemon = await startTestDaemon(t, { toml: settings(await startDnsServer(t)) });
  const spellings = PRIVATE.flatMap((address) => {
    const value = addressNumber(address);
    if (address.includes(":")) return ipv6Spellings(value);
    return [...ipv4Spellings(value), ...ipv4Wrappings(value)];
  });
  // The domain tests judge all spellings; here a fifth takes the way from a post to a connection.
  const hosts = spellings.filter((_host, index) => index % 5 === 0);
  const own = PUBLIC.map((address) => (address.includes(":") ? `[${address}]` : address));
  const tasks = [...hosts, ...own].flatMap((host) => [
    { postback_url: `http://${host}/` },
    { pingback_url: `https://${host}/$id` },
  ]);

  for (let from = 0; from < tasks.length; from += 100) {
    const batch = tasks.slice(from, from + 100);
    const answer = await daemon.post(batch);
    for (const [index, { status_code: code }] of answer.tasks.entries()) {
      assert.equal(code, 40501, JSON.stringify(batch[index]));
    }
  }
  await daemon.daemon.idle();

  assert(tasks.length > 500);
  assert.deepEqual(reached, []);
});

test("a name that resolves to a private address is refused at delivery, and no connection is made", async (t) => {
  const reached = await startTraps(t);
  const dns = await startDnsServer(t);
  const daemon = await startTestDaemon(t, { toml: settings(dns) });
  const all = [...PRIVATE, ...PUBLIC];
  const names = all.map((_address, index) => `n${index}.example.com`);
  for (const [index, address] of all.entries()) {
    dns.script(names[index] ?? "", { [address.includes(":") ? "AAAA" : "A"]: addresses(address) });
  }

  const posted = await daemon.post(names.map((name) => ({ postback_url: `http://${name}/` })));
  await daemon.daemon.idle();

  for (const [index, address] of all.entries()) {
    const { state, attempts } = await deliveryOf(daemon, posted.tasks[index]?.id ?? "");
    const refusal = { host: names[index], addresses: [address], rule: RULES[address] };
    assert.equal(state, "refused", address);
    assert.deepEqual(
      attempts.map((each) => [each.outcome, each.address, each.refusal]),
      [["refused", null, refusal]],
    );
  }
  assert.deepEqual(reached, []);
});

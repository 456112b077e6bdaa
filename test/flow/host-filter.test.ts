import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { FILTER_ARGS, filterOf } from "../../src/cli/admin-command.ts";
import { readArguments } from "../../src/cli/command.ts";
import { UsageError } from "../../src/cli/failure.ts";
import { allowsHost, parseAllowList } from "../../src/domain/address/allow-list.ts";
import type { DeliveryFilter } from "../../src/domain/webhook/delivery.ts";
import { judgeWebhookUrl } from "../../src/domain/webhook/webhook-url.ts";
import {
  createTestAccount,
  startTestDaemon,
  tempFolder,
  testConfig,
  type TestDaemon,
} from "../helpers/daemon.ts";
import { seedEnded } from "../helpers/delivery.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { runProgram } from "../helpers/program.ts";
import { T0 } from "../helpers/store.ts";
import { ask } from "../http/answer.ts";
import { asked, byKey, detailOf, postJson, search } from "../http/search-requests.ts";
import { atStore } from "../http/session-requests.ts";

/** What deliveries are stored with: the host of the webhook's URL in normal form, IPv6 without brackets. */
const STORED = ["hooks.example.com", "xn--bcher-kva.example", "127.0.0.1", "::1", "::ffff:7f00:1"];

const READ: readonly (readonly [written: string, host: (typeof STORED)[number]])[] = [
  ["hooks.example.com", "hooks.example.com"],
  ["Hooks.EXAMPLE.com", "hooks.example.com"],
  ["bücher.example", "xn--bcher-kva.example"],
  ["BÜCHER.example", "xn--bcher-kva.example"],
  ["bu\u0308cher.example", "xn--bcher-kva.example"],
  ["bücher。example", "xn--bcher-kva.example"],
  ["xn--bcher-kva.example", "xn--bcher-kva.example"],
  ["XN--Bcher-KVA.example", "xn--bcher-kva.example"],
  ["127.0.0.1", "127.0.0.1"],
  // What a URL takes for an address names that address here too.
  ["127.1", "127.0.0.1"],
  ["2130706433", "127.0.0.1"],
  ["0x7f.0.0.1", "127.0.0.1"],
  ["0177.0.0.1", "127.0.0.1"],
  ["[::1]", "::1"],
  ["::1", "::1"],
  ["[0:0:0:0:0:0:0:1]", "::1"],
  ["0000::0001", "::1"],
  ["[::FFFF:127.0.0.1]", "::ffff:7f00:1"],
  ["::ffff:7f00:1", "::ffff:7f00:1"],
];

const REFUSED: readonly string[] = [
  "http://hooks.example.com",
  "hooks.example.com:443",
  "[::1]:443",
  "[::1",
  "::1]",
  "[127.0.0.1]",
  "[hooks.example.com]",
  "fe80::1%eth0",
  "hooks.example.com/path",
  "hooks.example.com?x",
  "hooks.example.com#x",
  "user@hooks.example.com",
  "hooks%2eexample.com",
  "hooks.example.com.",
  "127.0.0.1.",
  "127.0.0.1。",
  ".example.com",
  "hooks..example.com",
  "*.example.com",
  "256.0.0.1",
  "127.0.0.1.5",
  ":::1",
  "::1::",
  `${"a".repeat(64)}.example`,
  `${"a.".repeat(126)}aa`,
];

const ALLOWED = parseAllowList(["127.0.0.1", "::1"]);
assert(ALLOWED.kind === "allow-list");
const POLICY = { allow: ALLOWED.list, ownNames: [], ownAddresses: [] };

const TAKES = /a host name or an address, without scheme, port or path/;

/**
 * A daemon with one given-up postback to each of the stored hosts. They are in the file before it starts: a daemon that
 * serves the file may run the tasks and send the postbacks itself.
 */
async function startWithHosts(t: TestContext): Promise<TestDaemon> {
  const folder = tempFolder(t);
  const file = testConfig(folder).database;
  const account = await createTestAccount(file);
  await atStore(file, async (store) => {
    const secrets = await store.findAccount(account.login);
    assert(secrets !== null);
    await seedEnded(store, secrets.accountId, { hosts: STORED });
  });
  return startTestDaemon(t, { clock: createFakeClock({ now: T0 }), folder, account });
}

function onCommandLine(host: string): DeliveryFilter {
  return filterOf(readArguments([`--host=${host}`], FILTER_ARGS));
}

interface Filtered {
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
}

function redelivery(daemon: TestDaemon, host: string) {
  const body = { since: new Date(T0).toISOString(), host };
  return postJson("/v1/redeliveries/preview", byKey(daemon), body);
}

test("a host is the same one to searches, redeliveries and the command line, however it is written", async (t) => {
  const daemon = await startWithHosts(t);

  for (const [written, host] of READ) {
    const found = await search(daemon, byKey(daemon), { q: `host:${written}` });
    const { hosts } = await asked<Filtered>(daemon, redelivery(daemon, written));
    const shown = found.tasks.flatMap(({ deliveries }) => deliveries.map((each) => each.host));
    assert.deepEqual(
      { search: shown, redelivery: hosts, commandLine: onCommandLine(written).host },
      { search: [host], redelivery: [{ host, deliveries: 1 }], commandLine: host },
      written,
    );
  }
});

test("a host is read as the one that a webhook's URL with it is stored by", () => {
  for (const [written, host] of READ) {
    const isBare = written.includes(":") && !written.startsWith("[");
    const verdict = judgeWebhookUrl(`https://${isBare ? `[${written}]` : written}:9000/x`, POLICY);
    assert.equal(verdict.kind === "allowed" ? verdict.target.host : verdict.reason, host, written);
  }
});

test("a name in webhooks.allow is the same host as in a filter", () => {
  for (const [written, host] of READ.filter(([, name]) => /^[hx]/.test(name))) {
    const verdict = parseAllowList([`${written}:9000`]);
    assert(verdict.kind === "allow-list", written);
    assert.ok(allowsHost(verdict.list, host, 9000), written);
  }
});

test("what can be no host is refused by searches, redeliveries and the command line alike", async (t) => {
  const daemon = await startWithHosts(t);
  const { url } = daemon;
  const headers = byKey(daemon);

  for (const written of REFUSED) {
    const target = `/v1/tasks/search?${new URLSearchParams({ q: `host:${written}` }).toString()}`;
    const searched = await ask(url, { target, headers });
    const ordered = await ask(url, redelivery(daemon, written));
    assert.deepEqual([searched.code, ordered.code], [40000, 40501], written);
    for (const each of [searched, ordered]) assert.match(detailOf(each), TAKES, written);
    assert.throws(
      () => onCommandLine(written),
      (error) => error instanceof UsageError && TAKES.test(error.message),
      written,
    );
  }
});

test("an order keeps the host in the form in which deliveries have it", async (t) => {
  const daemon = await startWithHosts(t);
  const body = { since: new Date(T0).toISOString(), host: "BÜCHER.example" };

  const { redelivery: order } = await asked<{ readonly redelivery: { readonly filter: unknown } }>(
    daemon,
    postJson("/v1/redeliveries", byKey(daemon), body),
  );

  assert.equal((order.filter as { readonly host: string }).host, "xn--bcher-kva.example");
});

test("the program finds deliveries by an address in brackets", async (t) => {
  const daemon = await startWithHosts(t);

  const words = ["admin", "delivery", "list", "--host", "[::1]", "--json", "--db", daemon.file];
  const { code, stdout } = await runProgram(t, words);

  assert.equal(code, 0);
  const { deliveries } = JSON.parse(stdout) as { readonly deliveries: readonly unknown[] };
  assert.equal(deliveries.length, 1);
});

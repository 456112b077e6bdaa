import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { systemClock } from "../../src/domain/clock/clock.ts";
import { explainUrl } from "../../src/ops/url.ts";
import type { UrlExplanation } from "../../src/ops/url.ts";
import { loaded } from "../helpers/config.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import type { DnsScript } from "../helpers/dns-server.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { runProgram } from "../helpers/program.ts";
import type { Finished } from "../helpers/program.ts";

const ID = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
const NO_HOSTS = "/no-such-hosts-file";

interface Named {
  /** What the name server says of receiver.example. */
  readonly answers?: DnsScript;
  readonly allow?: readonly string[];
}

const NO_LOG = { warn: () => assert.fail("there is nothing to warn of") };

/** Explains a URL with a name server of the test's own. */
async function explain(t: TestContext, url: string, named: Named = {}): Promise<UrlExplanation> {
  const dns = await startDnsServer(t);
  dns.script("receiver.example", named.answers ?? {});
  return explainUrl(
    { url, values: { id: ID, tag: "a b" } },
    {
      config: loaded({ flags: { "allow-target": named.allow ?? [] } }),
      clock: systemClock,
      log: NO_LOG,
      names: { servers: dns.servers, hostsFile: NO_HOSTS },
    },
  );
}

test("allows a name whose addresses are all public, and shows each", async (t) => {
  const answers = { A: addresses("8.8.8.8"), AAAA: addresses("2606:4700::1111") };
  const explained = await explain(t, "https://Receiver.example#x", { answers });

  assert.equal(explained.use, "webhook");
  assert.equal(explained.normalForm, "https://receiver.example/");
  assert.deepEqual(explained.outcome, { kind: "allowed", lifted: null });
  assert.deepEqual(explained.addresses, [
    { address: "8.8.8.8", isAllowed: true, rule: null },
    { address: "2606:4700::1111", isAllowed: true, rule: null },
  ]);
});

test("refuses all for one address that is not public, and says which", async (t) => {
  const answers = { A: addresses("8.8.8.8", "10.0.0.7") };
  const explained = await explain(t, "https://receiver.example/", { answers });

  assert.deepEqual(explained.addresses, [
    { address: "8.8.8.8", isAllowed: true, rule: null },
    { address: "10.0.0.7", isAllowed: false, rule: "private-use (RFC 1918)" },
  ]);
  assert.ok(explained.outcome.kind === "refused");
  assert.match(
    explained.outcome.reason,
    /receiver\.example resolves to 10\.0\.0\.7.*webhooks\.allow/,
  );
});

test("names the rule that the allow list lifts", async (t) => {
  const answers = { A: addresses("8.8.8.8", "10.0.0.7") };
  const byAddress = await explain(t, "http://receiver.example/", { answers, allow: ["10.0.0.7"] });
  const byName = await explain(t, "http://10.1.2.3:81/", { allow: ["10.1.0.0/16:81"] });

  const lifted = { kind: "allowed", lifted: "private-use (RFC 1918)" };
  assert.deepEqual(byAddress.outcome, lifted);
  assert.deepEqual(byAddress.addresses.at(1)?.isAllowed, true);
  assert.deepEqual(byName.outcome, lifted);
});

test("says of a name that cannot be resolved why", async (t) => {
  const none = await explain(t, "https://receiver.example/");
  const unknown = await explain(t, "https://other.example/");

  assert.deepEqual(none.outcome, { kind: "unresolved", error: "no addresses" });
  assert.deepEqual(unknown.outcome, { kind: "unresolved", error: "name not found" });
  assert.deepEqual(none.addresses, []);
});

test("waits for a name server no longer than an attempt would", async (t) => {
  const dns = await startDnsServer(t);
  dns.script("receiver.example", { A: { kind: "silence" }, AAAA: { kind: "silence" } });
  const clock = createFakeClock({ now: 0 });
  const question = { url: "https://receiver.example/", values: { id: ID, tag: null } };
  const config = loaded({ toml: 'webhooks.timeout = "3s"' });
  const names = { servers: dns.servers, hostsFile: NO_HOSTS };

  const explaining = explainUrl(question, { config, clock, log: NO_LOG, names });
  await dns.waitFor(1);
  clock.advance(3_000);

  const { outcome } = await explaining;
  assert.deepEqual(outcome, { kind: "unresolved", error: "name resolution was cut short" });
});

test("judges a URL with a placeholder as the pingback that it would become", async (t) => {
  const explained = await explain(t, "http://8.8.8.8/$id?t=$tag");
  // As it stands it would be no address; with the id in it it is none either.
  const host = await explain(t, "http://10.0.0.$id/");

  assert.equal(explained.use, "pingback");
  assert.equal(explained.normalForm, `http://8.8.8.8/${ID}?t=a%20b`);
  assert.deepEqual(explained.outcome, { kind: "allowed", lifted: null });
  assert.equal(host.use, "pingback");
  assert.notEqual(host.outcome.kind, "allowed");
});

/** The program's own output; the names here are literal addresses or this machine's. */
function run(t: TestContext, words: readonly string[]): Promise<Finished> {
  return runProgram(t, ["explain-url", ...words]);
}

test("exits with 0 and shows the normal form and every address", async (t) => {
  const url = "http://127.0.0.1:80/a b?i=$id&t=$tag";
  const finished = await run(t, [url, "--tag", "ä", "--allow-target", "127.0.0.1"]);

  assert.deepEqual([finished.code, finished.stderr], [0, ""]);
  for (const line of [
    new RegExp(`^normal_form +http://127\\.0\\.0\\.1/a%20b\\?i=${ID}&t=%C3%A4$`, "m"),
    /^lifted_rule +loopback \(RFC 1122\)$/m,
    new RegExp(`^\\$id and \\$tag substituted +http://127\\.0\\.0\\.1:80/a b\\?i=${ID}`, "m"),
    /^port in decimal, default port dropped +http/m,
    /^path and query encoded, dot segments resolved +http/m,
    /^127\.0\.0\.1 +allowed +loopback \(RFC 1122\)$/m,
  ]) {
    assert.match(finished.stdout, line);
  }
});

test("exits with 1 and gives the reason that task_post would give", async (t) => {
  const cases: readonly [url: string, stdout: RegExp][] = [
    ["http://localhost:9/", /^normal_form +http:\/\/localhost:9\/\n(?:.*\n)+\nThe host localhost /],
    ["ftp://example.com/", /^normal_form +-\n(?:.*\n)+\n.*begin with http/],
    [
      "http://0x7f.1/",
      /^normal_form +http:\/\/127\.0\.0\.1\/\n(?:.*\n)+\nThe address 127\.0\.0\.1 /,
    ],
    ["", /^normal_form +-\n/],
  ];

  for (const [url, stdout] of cases) {
    const finished = await run(t, [url]);
    assert.deepEqual([finished.code, finished.stderr], [1, ""], url);
    assert.match(finished.stdout, stdout);
  }
});

test("resolves localhost without a name server where it is listed by name", async (t) => {
  const words = ["http://localhost:9/", "--allow-target", "localhost:9", "--json"];
  const { code, stdout } = await run(t, words);

  assert.equal(code, 0);
  const { addresses: shown, ...document } = JSON.parse(stdout) as {
    readonly addresses: readonly { readonly address: string; readonly verdict: string }[];
  };
  assert.deepEqual(document, {
    use: "webhook",
    placeholders: null,
    normal_form: "http://localhost:9/",
    steps: [{ step: "as posted", url: "http://localhost:9/" }],
    host: "localhost",
    port: 9,
    verdict: "allowed",
    rule: null,
    reason: null,
    lifted_rule: "local name (localhost, RFC 6761)",
  });
  assert.equal(shown[0]?.address, "127.0.0.1");
  assert.equal(shown[0]?.verdict, "allowed");
});

test("keeps a terminal from acting on what a URL or a tag holds", async (t) => {
  const tag = ["--tag", "\u202e"];
  for (const words of [
    ["http://127.0.0.1/\u001b[2J"],
    ["http://127.0.0.1/\u202e"],
    ["http://127.0.0.1/$tag", ...tag],
    ["http://127.0.0.1/$tag", ...tag, "--json"],
  ]) {
    const { code, stdout } = await run(t, words);
    assert.equal(code, 1);
    assert.doesNotMatch(stdout, /[\u202e\u001b]/);
  }
});

test("exits with 2 for a tag that no task can have", async (t) => {
  const { code, stderr } = await run(t, ["http://127.0.0.1/$tag", "--tag", "a\nb"]);

  assert.equal(code, 2);
  assert.match(stderr, /^postbackd: --tag must be a string of at most 255 characters/);
});

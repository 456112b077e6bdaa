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
import type { Finished } from "../helpers/program.ts";
import { columns, runHere } from "./in-process.ts";

const ID = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";
const NO_HOSTS = "/no-such-hosts-file";

interface Named {
  /** The records of receiver.example. */
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

const PRIVATE = "private-use (RFC 1918)";
const BOTH = { A: addresses("8.8.8.8", "10.0.0.7") };
const HOOK = "https://receiver.example/";

/** The outcome, and the verdict of each address: the rule that it falls under, and whether it is allowed. */
const EXPLAINED: readonly (readonly [string, Named, object, readonly (readonly unknown[])[]])[] = [
  [
    "https://Receiver.example#x",
    { answers: { A: addresses("8.8.8.8"), AAAA: addresses("2606:4700::1111") } },
    { kind: "allowed", lifted: null },
    [
      ["8.8.8.8", true, null],
      ["2606:4700::1111", true, null],
    ],
  ],
  [
    HOOK,
    { answers: BOTH },
    { kind: "refused" },
    [
      ["8.8.8.8", true, null],
      ["10.0.0.7", false, PRIVATE],
    ],
  ],
  [
    HOOK,
    { answers: BOTH, allow: ["10.0.0.7"] },
    { kind: "allowed", lifted: PRIVATE },
    [
      ["8.8.8.8", true, null],
      ["10.0.0.7", true, PRIVATE],
    ],
  ],
  [
    "http://10.1.2.3:81/",
    { allow: ["10.1.0.0/16:81"] },
    { kind: "allowed", lifted: PRIVATE },
    [["10.1.2.3", true, PRIVATE]],
  ],
  [HOOK, {}, { kind: "unresolved", error: "no addresses" }, []],
  ["https://other.example/", {}, { kind: "unresolved", error: "name not found" }, []],
];

test("a URL is explained with each address, and the rule that the allow list lifts", async (t) => {
  for (const [url, named, outcome, judged] of EXPLAINED) {
    const explained = await explain(t, url, named);

    assert.partialDeepStrictEqual(explained.outcome, outcome, url);
    assert.deepEqual(columns(explained.addresses, "address", "isAllowed", "rule"), judged, url);
    assert.equal(explained.use, "webhook");
  }
});

test("the name lookup ends after webhooks.timeout", async (t) => {
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

test("a URL with a placeholder is judged with the values in it", async (t) => {
  const explained = await explain(t, "http://8.8.8.8/$id?t=$tag");
  const host = await explain(t, "http://10.0.0.$id/");

  assert.equal(explained.use, "pingback");
  assert.equal(explained.normalForm, `http://8.8.8.8/${ID}?t=a%20b`);
  assert.deepEqual(explained.outcome, { kind: "allowed", lifted: null });
  assert.equal(host.use, "pingback");
  assert.notEqual(host.outcome.kind, "allowed");
});

function run(t: TestContext, words: readonly string[]): Promise<Finished> {
  return runHere(t, ["explain-url", ...words]);
}

test("the command exits with 0 for an allowed URL, and shows its steps and addresses", async (t) => {
  const url = "http://127.0.0.1:80/a b?i=$id&t=$tag";
  const finished = await run(t, [url, "--tag", "ä", "--allow-target", "127.0.0.1"]);

  assert.deepEqual([finished.code, finished.stderr], [0, ""]);
  for (const line of [
    new RegExp(`^normal_form +http://127\\.0\\.0\\.1/a%20b\\?i=${ID}&t=%C3%A4$`, "m"),
    /^lifted_rule +loopback/m,
    new RegExp(`^\\$id .* +http://127\\.0\\.0\\.1:80/a b\\?i=${ID}`, "m"),
    /^127\.0\.0\.1 +allowed +loopback/m,
    /^webhooks\.allow allows it\. .*SIGHUP/m,
  ]) {
    assert.match(finished.stdout, line);
  }
});

test("the command exits with 1 for a URL that task_post refuses", async (t) => {
  for (const [url, ...expected] of [
    ["http://localhost:9/", "http://localhost:9/", "localhost", 9],
    ["ftp://example.com/", null, null, null],
    ["http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1", 80],
    ["https://[::1]/", "https://[::1]/", "::1", 443],
    ["", null, null, null],
  ] as const) {
    const { code, stdout } = await run(t, [url, "--json"]);
    const { normal_form, host, port, verdict, reason } = JSON.parse(stdout);
    assert.deepEqual([code, verdict], [1, "refused"], url);
    assert.deepEqual([normal_form, host, port], expected, url);
    assert.ok(reason.length > 0);
  }
});

test("the command resolves localhost without a name server if it is allowed by name", async (t) => {
  const words = ["http://localhost:9/", "--allow-target", "localhost:9", "--json"];
  const { code, stdout } = await run(t, words);

  assert.equal(code, 0);
  const { addresses: shown, ...document } = JSON.parse(stdout) as {
    readonly addresses: readonly { readonly address: string; readonly verdict: string }[];
  };
  assert.deepEqual(document, {
    ...{ use: "webhook", placeholders: null, normal_form: "http://localhost:9/" },
    steps: [{ step: "as posted", url: "http://localhost:9/" }],
    ...{ host: "localhost", port: 9, verdict: "allowed", rule: null, reason: null },
    lifted_rule: "local name (localhost, RFC 6761)",
  });
  assert.deepEqual([shown[0]?.address, shown[0]?.verdict], ["127.0.0.1", "allowed"]);
});

test("the command escapes the control characters of a URL and of a tag", async (t) => {
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

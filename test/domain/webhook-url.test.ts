import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";

import fc from "fast-check";

import { classifyAddress } from "../../src/domain/address/address.ts";
import { EMPTY_ALLOW_LIST, parseAllowList } from "../../src/domain/address/allow-list.ts";
import { encodedForm } from "../../src/domain/webhook/url-form.ts";
import { judgeAddresses, judgeWebhookUrl } from "../../src/domain/webhook/webhook-url.ts";
import type { UrlPolicy, WebhookTarget } from "../../src/domain/webhook/webhook-url.ts";
import { cpuMsOf } from "../helpers/cpu-time.ts";
import { hostileUrl } from "./hostile-urls.ts";
import {
  addressOf,
  ipv4Spellings,
  ipv4Wrappings,
  ipv6Spellings,
  isatapHosts,
  isPublicByReference,
  registryRanges,
} from "./special-addresses.ts";
import { NORMAL_FORMS, REFUSALS } from "./webhook-url-cases.ts";

const POLICY: UrlPolicy = {
  allow: EMPTY_ALLOW_LIST,
  ownNames: ["Worker-7.example.net", "worker-7"],
  ownAddresses: ["93.184.216.34", "2606:2800:220:1::1", "fe80::7%eth0"],
};

describe("judgeWebhookUrl", () => {
  test("normalises an allowed URL", () => {
    for (const [raw, url] of NORMAL_FORMS) assert.equal(allowed(raw).url, url, raw);
  });

  for (const [rule, urls] of REFUSALS) {
    test(`refuses by the rule '${rule}': ${JSON.stringify(urls[0]).slice(0, 60)}`, () => {
      for (const url of urls) {
        const verdict = judgeWebhookUrl(url, POLICY);
        assert.equal(verdict.kind === "refused" ? verdict.rule : verdict.target.url, rule, url);
      }
    });
  }

  test("takes a URL apart into slices of its normal form", () => {
    assert.deepEqual(allowed("HTTPS://bücher.example:8443/a b?"), {
      url: "https://xn--bcher-kva.example:8443/a%20b?",
      scheme: "https",
      host: "xn--bcher-kva.example",
      port: 8443,
      hostHeader: "xn--bcher-kva.example:8443",
      requestTarget: "/a%20b?",
      isAddress: false,
    });
    assert.deepEqual(allowed("http://[2606:4700::1111]"), {
      url: "http://[2606:4700::1111]/",
      scheme: "http",
      host: "2606:4700::1111",
      port: 80,
      hostHeader: "[2606:4700::1111]",
      requestTarget: "/",
      isAddress: true,
    });
  });

  test("takes exactly 2048 bytes in normal form, whatever the length as written", () => {
    const longest = `http://h.example/${"a".repeat(2031)}`;
    assert.equal(allowed(longest).url.length, 2048);
    assert.equal(allowed(`${longest}#${"f".repeat(100_000)}`).url, longest);
    assert.equal(judgeWebhookUrl(`${longest}a`, POLICY).kind, "refused");
  });

  for (const range of registryRanges()) {
    // The blocks themselves are refused whole, mapped and translated addresses by what is inside.
    const isWrapper = /^(?:::ffff:0:0|64:ff9b::)\/96 /.test(range.name);

    test(`judges both ends of ${range.name} right in every spelling, and what lies next to them`, () => {
      for (const value of [range.first, range.last]) {
        const text = addressOf(value, range.bits);
        if (!isWrapper) assert.equal(isPublicByReference(value, range.bits), false, text);
        assertJudged(value, range.bits);
      }
      const highest = (1n << BigInt(range.bits)) - 1n;
      for (const value of [range.first - 1n, range.last + 1n]) {
        if (value >= 0n && value <= highest) assertJudged(value, range.bits);
      }
    });
  }

  test("refuses wrapped public IPv4 addresses, but for mapped and translated ones", () => {
    const wrapped = ["::8.8.8.8", "::ffff:0:8.8.8.8", "2002:808:808::", "2001:0:808:808::"];
    for (const host of [...wrapped, "64:ff9b:1::8.8.8.8"]) assertRefused(`http://[${host}]/`);
    for (const host of ["::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]) allowed(`http://[${host}]/`);
  });

  test("names webhooks.allow in a refusal exactly where that setting lifts it", () => {
    for (const [rule, urls] of REFUSALS) {
      for (const url of urls) {
        const verdict = judgeWebhookUrl(url, POLICY);
        assert.ok(verdict.kind === "refused");
        const host = new RegExp(/^http:\/\/(\[.*\]|[^:/]*)/i).exec(url)?.[1] ?? "";
        const lifted = judgeWebhookUrl(
          url,
          allowing(URL.parse(`http://${host}/`)?.hostname ?? "a.example"),
        );
        assert.equal(
          verdict.reason.includes("webhooks.allow"),
          lifted.kind === "allowed",
          `${rule} ${url}`,
        );
      }
    }
  });

  test("gives one full sentence as reason, without credentials, path or query", () => {
    for (const [, urls] of REFUSALS) {
      for (const url of urls) {
        const verdict = judgeWebhookUrl(url.replace(/\/$/, "/SECRET?SECRET"), POLICY);
        assert.ok(verdict.kind === "refused");
        assert.match(verdict.reason, /^The [^\n]{20,}\.$/);
        assert.doesNotMatch(verdict.reason, /SECRET/);
      }
    }
    const verdict = judgeWebhookUrl("http://user:SECRET@h.example/", POLICY);
    assert.ok(verdict.kind === "refused" && !/SECRET|user:/.test(verdict.reason));
  });

  test("lets a host entry lift the rules for that name and port only", () => {
    const policy = allowing("localhost:9000", "receiver.lan", "worker-7");
    for (const url of ["http://localhost:9000/", "https://receiver.lan/", "http://worker-7:1/"]) {
      assert.equal(judgeWebhookUrl(url, policy).kind, "allowed", url);
    }
    for (const url of ["http://localhost/", "http://127.0.0.1:9000/", "http://a.receiver.lan/"]) {
      assert.equal(judgeWebhookUrl(url, policy).kind, "refused", url);
    }
  });

  test("lets an address entry lift the address rule only", () => {
    const policy = allowing("127.0.0.1:9000", "[::1]:9000", "93.184.216.34");
    for (const host of ["127.1:9000", "[::ffff:7f00:1]:9000", "[::1]:9000", "93.184.216.34"]) {
      assert.equal(judgeWebhookUrl(`http://${host}/`, policy).kind, "allowed", host);
    }
    for (const host of ["localhost:9000", "127.0.0.1", "127.0.0.2:9000", "[::1]"]) {
      assert.equal(judgeWebhookUrl(`http://${host}/`, policy).kind, "refused", host);
    }
  });

  test("lifts no other rule for an allowed target", () => {
    const policy = allowing("localhost", "127.0.0.1");
    for (const url of [
      "http://u@localhost/",
      "http://localhost:0/",
      "ftp://localhost/",
      "http://127.0.0.1./",
    ]) {
      assert.equal(judgeWebhookUrl(url, policy).kind, "refused", url);
    }
  });

  test("judges a URL by the policy that it is given, however often and by whichever it was judged before", () => {
    const allow = parseAllowList(["127.0.0.1"]);
    assert.ok(allow.kind === "allow-list");
    const lifted = { ...POLICY, allow: allow.list };
    for (let i = 0; i < 1000; i++) {
      const url = `http://127.0.0.1/${i % 400}`;
      assert.equal(judgeWebhookUrl(url, POLICY).kind, "refused");
      const verdict = judgeWebhookUrl(url, lifted);
      assert.equal(verdict.kind === "allowed" && verdict.target.url, url);
    }
  });

  test("makes of any text a refusal or a fixed point that it judges the same", () => {
    fc.assert(fc.property(hostileUrl(), assertSound), { numRuns: 10_000 });
  });

  test("answers within bounds however long and crafted the text is", async () => {
    const texts = [
      `http://${"漢字".repeat(300_000)}/`,
      `http://h.example/${"a/../".repeat(200_000)}`,
      `http://h.example/#${"é".repeat(500_000)}`,
      `http://${"a-".repeat(380)}/`,
      `${" ".repeat(1_000_000)}http://h.example/`,
      `http://h.example/${" ".repeat(1_000_000)}`,
    ];
    for (const text of texts) {
      const ms = await cpuMsOf(() => {
        judgeWebhookUrl(text, POLICY);
        encodedForm(text);
      });
      // Far above what it takes (4 ms), far below what quadratic work on these would.
      assert.ok(ms < 500, `${ms} ms`);
    }
  });

  test("spends no Punycode on a host that is too long for any name", async () => {
    const ideographs = Array.from(
      { length: 4000 },
      (_, index) => 0x4e00 + ((index * 7919) % 20_000),
    );
    const url = `http://${String.fromCharCode(...ideographs)}/`;
    const ms = await cpuMsOf(() => {
      for (let round = 0; round < 50; round++) {
        assertRefused(url);
        assert.equal(encodedForm(url), null);
      }
    });
    // A parser alone takes 23 ms for it, every time.
    assert.ok(ms < 500, `${ms} ms`);
  });
});

describe("judgeAddresses", () => {
  const target = allowed("https://hooks.example.com/");

  test("allows public answers, each once, in canonical text and in order", () => {
    const answers = ["8.8.8.8", "2606:4700:0::1111", "::ffff:8.8.8.8", "1.1.1.1"];
    assert.deepEqual(judgeAddresses(target, answers, POLICY), {
      kind: "allowed",
      addresses: ["8.8.8.8", "2606:4700::1111", "1.1.1.1"],
    });
    assert.deepEqual(judgeAddresses(target, [], POLICY), { kind: "allowed", addresses: [] });
  });

  test("refuses all answers for one that is not public, and says which", () => {
    const verdict = judgeAddresses(target, ["8.8.8.8", "::FFFF:10.0.0.1", "127.0.0.1"], POLICY);
    assert.ok(verdict.kind === "refused");
    assert.equal(verdict.address, "10.0.0.1");
    assert.equal(verdict.rule, "private-use (RFC 1918)");
    assert.match(verdict.reason, /hooks\.example\.com resolves to 10\.0\.0\.1.*webhooks\.allow/);
  });

  test("refuses the machine's own addresses and those with a zone", () => {
    for (const address of ["93.184.216.34", "2606:2800:220:1:0::1", "2606:4700::1%eth0"]) {
      assert.equal(judgeAddresses(target, [address], POLICY).kind, "refused", address);
    }
  });

  test("lets an address entry lift an answer on its port", () => {
    const answers = ["8.8.8.8", "10.1.2.3"];
    assert.equal(judgeAddresses(target, answers, allowing("10.1.0.0/16:443")).kind, "allowed");
    assert.equal(judgeAddresses(target, answers, allowing("10.1.0.0/16:80")).kind, "refused");
  });

  test("lets a host entry lift whatever the name resolves to, but for what is no address", () => {
    const policy = allowing("localhost");
    const local = judgeWebhookUrl("http://localhost:9000/", policy);
    assert.ok(local.kind === "allowed");
    assert.deepEqual(judgeAddresses(local.target, ["127.0.0.1", "::1", "fe80::1%lo0"], policy), {
      kind: "allowed",
      addresses: ["127.0.0.1", "::1", "fe80::1%lo0"],
    });
    for (const text of ["localhost", "127.1", ""]) {
      assert.equal(judgeAddresses(local.target, [text], policy).kind, "refused", text);
    }
  });

  test("agrees with the judge of URLs on every literal address", () => {
    const hosts = registryRanges().map(({ first, bits }) => addressOf(first, bits));
    for (const policy of [allowing("0.0.0.0/0", "::/0"), POLICY]) {
      for (const host of hosts) {
        const url = `http://${host.includes(":") ? `[${host}]` : host}/`;
        const verdict = judgeWebhookUrl(url, policy);
        const literal = { ...target, host, isAddress: true };
        assert.equal(judgeAddresses(literal, [host], policy).kind, verdict.kind, host);
      }
    }
  });
});

describe("the corpora", () => {
  const corpora = new URL("../../../shared/corpora/", import.meta.url);

  for (const name of ["wpt-url/urltestdata.json", "wpt-url/toascii.json", "blns/blns.json"]) {
    test(`hold no text that ${name} could trip the judge with`, (t) => {
      const file = new URL(name, corpora);
      if (!existsSync(file)) return t.skip("the shared corpora are not here");
      for (const text of inputs(JSON.parse(readFileSync(file, "utf8")))) {
        for (const raw of [
          text,
          `http://${text}`,
          `https://h.example/${text}`,
          `http://${text}.example/`,
        ]) {
          assertSound(raw);
        }
      }
    });
  }
});

function inputs(entries: unknown): readonly string[] {
  assert.ok(Array.isArray(entries));
  return entries.flatMap((entry: unknown) => {
    if (typeof entry === "string") return entry;
    const isCase = typeof entry === "object" && entry !== null && "input" in entry;
    return isCase && typeof entry.input === "string" ? entry.input : [];
  });
}

function allowed(raw: string): WebhookTarget {
  const verdict = judgeWebhookUrl(raw, POLICY);
  if (verdict.kind === "refused") assert.fail(`${raw}: ${verdict.reason}`);
  return verdict.target;
}

// Holds every spelling of the address against a second reading of the rules.
function assertJudged(value: bigint, bits: 32 | 128): void {
  const kind = isPublicByReference(value, bits) ? "allowed" : "refused";
  const hosts =
    bits === 32 ? [...ipv4Spellings(value), ...isatapHosts(value)] : ipv6Spellings(value);
  for (const host of hosts) {
    assert.equal(judgeWebhookUrl(`http://${host}/`, POLICY).kind, kind, host);
  }
  if (bits === 32) for (const host of ipv4Wrappings(value)) assertRefused(`http://${host}/`);
  else assertRefused(`http://[${addressOf(value, bits)}%25eth0]/`);
}

function assertRefused(url: string): void {
  assert.equal(judgeWebhookUrl(url, POLICY).kind, "refused", url);
}

function allowing(...entries: readonly string[]): UrlPolicy {
  const verdict = parseAllowList(entries);
  if (verdict.kind === "fault") return POLICY;
  return { ...POLICY, allow: verdict.list };
}

// What has to hold of every verdict, whatever the text.
function assertSound(raw: string): void {
  const verdict = judgeWebhookUrl(raw, POLICY);
  const shown = encodedForm(raw);
  if (shown !== null) assert.equal(encodedForm(shown), shown, raw);
  if (verdict.kind === "refused") return;
  const { url, scheme, host, port, hostHeader, requestTarget, isAddress } = verdict.target;
  assert.deepEqual(judgeWebhookUrl(url, POLICY), verdict, raw);
  assert.equal(URL.parse(url)?.href, url);
  assert.equal(url, `${scheme}://${hostHeader}${requestTarget}`);
  assert.match(url, /^https?:\/\/[^@/#\\]+\/[\x21-\x7e]*$/);
  assert.ok(!url.includes("#") && url.length <= 2048 && requestTarget.startsWith("/"));
  assert.ok(port >= 1 && port <= 65_535);
  assert.equal(classifyAddress(host).kind === "public", isAddress, raw);
  if (!isAddress) assert.match(host, /^(?=.{3,253}$)([a-z0-9_-]{1,63}\.)+[a-z0-9_-]{1,63}$/);
  assert.equal(shown, url, raw);
}

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";

import fc from "fast-check";

import { classifyAddress } from "../../src/domain/address/address.ts";
import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import { encodedForm } from "../../src/domain/webhook/url-form.ts";
import {
  judgeAddresses,
  judgeWebhookUrl,
  type UrlPolicy,
  type WebhookTarget,
} from "../../src/domain/webhook/webhook-url.ts";
import { cpuMsOf } from "../helpers/cpu-time.ts";
import {
  addressOf,
  ipv4Spellings,
  ipv4Wrappings,
  ipv6Spellings,
  isPublicByReference,
  isatapHosts,
  registryRanges,
} from "./special-addresses.ts";
import { NORMAL_FORMS, POLICY, REFUSALS, hostileUrl } from "./webhook-url-cases.ts";

describe("judgeWebhookUrl", () => {
  test("normalises an allowed URL", () => {
    for (const [raw, url] of NORMAL_FORMS) assert.equal(allowed(raw).url, url, raw);
  });

  test("refuses a URL by its rule", () => {
    for (const [rule, urls] of REFUSALS) {
      for (const url of urls) {
        const verdict = judgeWebhookUrl(url, POLICY);
        assert.equal(verdict.kind === "refused" ? verdict.rule : verdict.target.url, rule, url);
      }
    }
  });

  test("splits a URL into parts of its normal form", () => {
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

  test("allows 2048 bytes in normal form, of any length as written", () => {
    const longest = `http://h.example/${"a".repeat(2031)}`;
    assert.equal(allowed(longest).url.length, 2048);
    assert.equal(allowed(`${longest}#${"f".repeat(100_000)}`).url, longest);
    assert.equal(judgeWebhookUrl(`${longest}a`, POLICY).kind, "refused");
  });

  test("judges the ends of each registered block and their neighbours in every spelling", () => {
    for (const { name, bits, first, last } of registryRanges()) {
      // Mapped and translated addresses are judged by the IPv4 address inside.
      const isWrapper = /^(?:::ffff:0:0|64:ff9b::)\/96 /.test(name);
      const highest = (1n << BigInt(bits)) - 1n;
      for (const value of [first, last]) {
        if (!isWrapper) assert.equal(isPublicByReference(value, bits), false, name);
      }
      for (const value of [first - 1n, first, last, last + 1n]) {
        if (value >= 0n && value <= highest) assertJudged(value, bits);
      }
    }
  });

  test("refuses public IPv4 addresses inside others, except mapped and translated ones", () => {
    const wrapped = ["::8.8.8.8", "::ffff:0:8.8.8.8", "2002:808:808::", "2001:0:808:808::"];
    for (const host of [...wrapped, "64:ff9b:1::8.8.8.8"]) assertRefused(`http://[${host}]/`);
    for (const host of ["::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]) allowed(`http://[${host}]/`);
  });

  test("names webhooks.allow in a refusal exactly if the setting lifts it", () => {
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

  test("returns one sentence as reason, without credentials, path or query", () => {
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

  test("allows the name and port of a host entry and no others", () => {
    const policy = allowing("localhost:9000", "receiver.lan", "worker-7");
    for (const url of ["http://localhost:9000/", "https://receiver.lan/", "http://worker-7:1/"]) {
      assert.equal(judgeWebhookUrl(url, policy).kind, "allowed", url);
    }
    for (const url of ["http://localhost/", "http://127.0.0.1:9000/", "http://a.receiver.lan/"]) {
      assert.equal(judgeWebhookUrl(url, policy).kind, "refused", url);
    }
  });

  test("allows the address and port of an address entry and no others", () => {
    const policy = allowing("127.0.0.1:9000", "[::1]:9000", "93.184.216.34");
    for (const host of ["127.1:9000", "[::ffff:7f00:1]:9000", "[::1]:9000", "93.184.216.34"]) {
      assert.equal(judgeWebhookUrl(`http://${host}/`, policy).kind, "allowed", host);
    }
    for (const host of ["localhost:9000", "127.0.0.1", "127.0.0.2:9000", "[::1]"]) {
      assert.equal(judgeWebhookUrl(`http://${host}/`, policy).kind, "refused", host);
    }
  });

  test("applies all other rules to an allowed target", () => {
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

  test("judges a URL by the given policy, also after other policies", () => {
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

  test("returns a refusal or a stable normal form for any text", () => {
    fc.assert(fc.property(hostileUrl(), assertSound), { numRuns: 10_000 });
  });

  test("needs bounded time for long and crafted text", async () => {
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
      // Measured: 4 ms.
      assert.ok(ms < 500, `${ms} ms`);
    }
  });

  test("skips Punycode for a host that is too long", async () => {
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
    // Punycode alone takes 23 ms each time.
    assert.ok(ms < 500, `${ms} ms`);
  });
});

describe("judgeAddresses", () => {
  const target = allowed("https://hooks.example.com/");

  test("allows public addresses, without duplicates, in canonical form and in order", () => {
    const answers = ["8.8.8.8", "2606:4700:0::1111", "::ffff:8.8.8.8", "1.1.1.1"];
    assert.deepEqual(judgeAddresses(target, answers, POLICY), {
      kind: "allowed",
      addresses: ["8.8.8.8", "2606:4700::1111", "1.1.1.1"],
    });
    assert.deepEqual(judgeAddresses(target, [], POLICY), { kind: "allowed", addresses: [] });
  });

  test("refuses all addresses if one is not public, and names it", () => {
    const verdict = judgeAddresses(target, ["8.8.8.8", "::FFFF:10.0.0.1", "127.0.0.1"], POLICY);
    assert.ok(verdict.kind === "refused");
    assert.equal(verdict.address, "10.0.0.1");
    assert.equal(verdict.rule, "private-use (RFC 1918)");
    assert.match(verdict.reason, /hooks\.example\.com resolves to 10\.0\.0\.1.*webhooks\.allow/);
  });

  test("refuses the machine's own addresses and addresses with a zone", () => {
    for (const address of ["93.184.216.34", "2606:2800:220:1:0::1", "2606:4700::1%eth0"]) {
      assert.equal(judgeAddresses(target, [address], POLICY).kind, "refused", address);
    }
  });

  test("allows the addresses of an address entry on its port", () => {
    const answers = ["8.8.8.8", "10.1.2.3"];
    assert.equal(judgeAddresses(target, answers, allowing("10.1.0.0/16:443")).kind, "allowed");
    assert.equal(judgeAddresses(target, answers, allowing("10.1.0.0/16:80")).kind, "refused");
  });

  test("allows every address of a host entry, and no other text", () => {
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

  test("returns the same verdict as judgeWebhookUrl for a literal address", () => {
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

test("the public corpora contain no text that breaks the verdict", () => {
  const corpus = (name: string): unknown =>
    JSON.parse(readFileSync(new URL(`../fixtures/http/${name}`, import.meta.url), "utf8"));
  const { urls, hosts } = corpus("wpt-urls.json") as Record<"urls" | "hosts", readonly string[]>;
  for (const text of [...urls, ...hosts, ...(corpus("blns.json") as readonly string[])]) {
    for (const raw of [text, `http://${text}`, `https://h.example/${text}`]) assertSound(raw);
    assertSound(`http://${text}.example/`);
  }
});

function allowed(raw: string): WebhookTarget {
  const verdict = judgeWebhookUrl(raw, POLICY);
  if (verdict.kind === "refused") assert.fail(`${raw}: ${verdict.reason}`);
  return verdict.target;
}

// Compares every spelling of the address with the reference.
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

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import fc from "fast-check";

import { encodedForm, substitutePlaceholders } from "../../src/domain/webhook/url-form.ts";
import {
  judgePingbackUrl,
  judgeWebhookUrl,
  urlSteps,
} from "../../src/domain/webhook/webhook-url.ts";
import { POLICY, hostileUrl } from "./webhook-url-cases.ts";

const ID = "0199d0a0-7c1e-7000-8000-00000000000a";

describe("substitutePlaceholders", () => {
  test("replaces $id and $tag everywhere, URI-encoded, also !'()*", () => {
    const cases = [
      ["https://h.example/$id?t=$tag", "a", `https://h.example/${ID}?t=a`],
      ["$tag$tag/$tagged/$identity", "x", `xx/xged/${ID}entity`],
      [
        "$tag",
        "a b/é?&#%+=@:\"!'()*~._-",
        "a%20b%2F%C3%A9%3F%26%23%25%2B%3D%40%3A%22%21%27%28%29%2A~._-",
      ],
      ["$tag", "😀\n", "%F0%9F%98%80%0A"],
      ["[$tag]", null, "[]"],
      ["%24id $ID $Tag $ta $i d $$id", "x", `%24id $ID $Tag $ta $i d $${ID}`],
    ] as const;
    for (const [template, tag, substituted] of cases) {
      assert.equal(substitutePlaceholders(template, { id: ID, tag }), substituted);
    }
  });

  test("replaces once: placeholders in a tag stay text", () => {
    const substituted = substitutePlaceholders("/$tag/$id", { id: "$tag", tag: "$id $& $1 $$" });
    assert.equal(substituted, "/%24id%20%24%26%20%241%20%24%24/%24tag");
  });

  test("replaces a lone surrogate", () => {
    assert.equal(substitutePlaceholders("$tag", { id: ID, tag: "\ud800" }), "%EF%BF%BD");
  });

  test("stops when the result is too long for a URL, which is then refused", () => {
    const tag = "😀".repeat(255);
    const template = `https://h.example/${"$tag".repeat(500)}`;
    const substituted = substitutePlaceholders(template, { id: ID, tag });
    assert.ok(substituted.length > 8192 && substituted.length < 20_000);
    const verdict = judgePingbackUrl(template, { values: { id: ID, tag }, policy: POLICY });
    assert.equal(verdict.kind === "refused" && verdict.rule, "URL over 2048 bytes");
  });

  test("leaves a template unchanged that is too long for a URL, also with empty tags", () => {
    const template = `https://h.example/${"$tag".repeat(2500)}`;
    assert.equal(substitutePlaceholders(template, { id: ID, tag: null }), template);
  });
});

describe("encodedForm", () => {
  test("keeps placeholders in the normal form", () => {
    const cases = [
      ["https://H.example:443/ü/$id?q=$tag ü#$id", "https://h.example/%C3%BC/$id?q=$tag%20%C3%BC"],
      ["https://$tag.Example.com", "https://$tag.example.com/"],
      ["https://$tag/", "https://$tag/"],
      ["https://h.example:$tag/a b", "https://h.example:$tag/a%20b"],
      ["https://Bücher.example:8$tag/ü", "https://xn--bcher-kva.example:8$tag/%C3%BC"],
      ["https://$id:$tag/", "https://$id:$tag/"],
      ["https://$tag.bücher.example:443", "https://$tag.xn--bcher-kva.example/"],
      ["https://Ü$tag.Bücher。example/?", "https://%C3%BC$tag.xn--bcher-kva.example/?"],
      ["https://%c3%bc$tag.example/", "https://%C3%BC$tag.example/"],
      ["http://1.2.3.$tag/", "http://1.2.3.$tag/"],
      ["http://$tag.2.3.4:80/", "http://$tag.2.3.4/"],
      ["http://[::$tag]:8080/", "http://[::$tag]:8080/"],
      ["http$tag://h.example/é", "http$tag://h.example/%C3%A9"],
      ["http://h.example/a/../$id/./$tag", "http://h.example/$id/$tag"],
      ["http://h.example/%24id", "http://h.example/%24id"],
    ] as const;
    for (const [template, shown] of cases) assert.equal(encodedForm(template), shown, template);
  });

  test("returns null for text that is not an HTTP URL", () => {
    const texts = [
      ...["", "h.example", "ftp://h.example/", "http://", "http:///h.example", "http://a^b/"],
      ...[" http://h.example/", "http://h.example/\t", "http://h.example/\ud800"],
    ];
    for (const text of texts) {
      assert.equal(encodedForm(text), null, text);
    }
  });
});

describe("judgePingbackUrl", () => {
  test("allows the substituted URL", () => {
    const cases = [
      ["https://h.example/$id/$tag", "a b", `https://h.example/${ID}/a%20b`],
      ["https://$tag.example/", "Hooks", "https://hooks.example/"],
      ["https://$tag.example/", "bücher", "https://xn--bcher-kva.example/"],
      ["https://h.example:$tag/", "8443", "https://h.example:8443/"],
      ["https://h.example:$tag/", "443", "https://h.example/"],
      ["http$tag://h.example/", "s", "https://h.example/"],
      ["https://h.example/cb/$tag", "..", "https://h.example/"],
      ["https://h.example/cb/$tag/$tag", null, "https://h.example/cb//"],
    ] as const;
    for (const [template, tag, url] of cases) {
      const verdict = judgePingbackUrl(template, { values: { id: ID, tag }, policy: POLICY });
      assert.equal(verdict.kind === "allowed" ? verdict.target.url : verdict.reason, url);
    }
  });

  test("refuses a target that the values create", () => {
    const cases = [
      ["http://$tag/", "localhost"],
      ["http://127.0.0.$tag/", "1"],
      ["http://$tag/", "0x7f.1"],
      ["http://h$tag/", "@127.0.0.1"],
      ["http://h.example$tag/", ".internal"],
      ["http://h.example:$tag/", "0"],
      ["http://$tag.example/", null],
      ["http://[$tag]/", "::1"],
      ["$tag//h.example/", "http:"],
    ] as const;
    for (const [template, tag] of cases) {
      const verdict = judgePingbackUrl(template, { values: { id: ID, tag }, policy: POLICY });
      assert.equal(verdict.kind, "refused", template);
    }
  });

  test("refuses a template over 2048 bytes, also with empty tags", () => {
    for (const count of [600, 250_000]) {
      const template = `https://h.example/${"$tag".repeat(count)}`;
      const verdict = judgePingbackUrl(template, { values: { id: ID, tag: null }, policy: POLICY });
      assert.equal(verdict.kind === "refused" && verdict.rule, "URL over 2048 bytes");
    }
  });

  test("returns a template that substitutes to the requested URL", () => {
    const values = fc.record({ id: fc.constant(ID), tag: fc.option(tagText()) });
    let allowed = 0;
    fc.assert(
      fc.property(pingbackTemplate(), values, (text, each) => {
        const verdict = judgePingbackUrl(text, { values: each, policy: POLICY });
        if (verdict.kind === "refused") return;
        allowed++;
        assert.equal(encodedForm(verdict.template), verdict.template);
        assert.match(verdict.template, /^[\x21-\x7e]{1,2048}$/);
        const again = judgeWebhookUrl(substitutePlaceholders(verdict.template, each), POLICY);
        assert.deepEqual(again, { kind: "allowed", target: verdict.target });
      }),
      { numRuns: 3000 },
    );
    assert.ok(allowed > 300, `only ${allowed} of the templates were allowed`);
  });

  test("returns a stable template for every allowed URL", () => {
    const spliced = fc.tuple(hostileUrl(), fc.constantFrom("$id", "$tag"), fc.nat(40));
    fc.assert(
      fc.property(spliced, tagText(), ([url, placeholder, at], tag) => {
        const text = url.slice(0, at) + placeholder + url.slice(at);
        const verdict = judgePingbackUrl(text, { values: { id: ID, tag }, policy: POLICY });
        if (verdict.kind === "refused") return;
        assert.equal(encodedForm(verdict.template), verdict.template, text);
        assert.deepEqual(judgeWebhookUrl(verdict.target.url, POLICY).kind, "allowed");
      }),
      { numRuns: 2000 },
    );
  });
});

// Dot segments in a tag change the path; the tests above have them.
function tagText(): fc.Arbitrary<string> {
  const likely = fc.constantFrom(..."a A 1 80 443 é x.y - xn-- $id s 😀".split(" "));
  return fc.oneof(likely, fc.string({ maxLength: 8 })).filter((tag) => !tag.includes(".."));
}

function pingbackTemplate(): fc.Arbitrary<string> {
  const label = pick(
    ..."a É ü$tag $tag $id $tag$id B-$tag %C3%BC %c3$tag xn--bcher-kva".split(" "),
  );
  const port = pick("", "", ":80", ":443", ":$tag", ":8$tag");
  const segment = pick("/a", "/$id", "/$tag", "/é $tag", "/%24tag", "//", "/'\"", "/a.b");
  return fc
    .tuple(
      pick("http://", "https://", "HTTPS://"),
      fc.array(label, { minLength: 1, maxLength: 3 }),
      pick(".example", ".Example.ORG", "。bücher.example", ".$id.example", ".$tag"),
      port,
      fc.array(segment, { maxLength: 3 }),
      pick("", "?", "?q=$tag é'", "#$tag", "?$id#$id é", " #"),
    )
    .map(([scheme, labels, domain, portText, path, end]) =>
      [scheme, labels.join("."), domain, portText, path.join(""), end].join(""),
    );
}

function pick(...choices: readonly string[]): fc.Arbitrary<string> {
  return fc.constantFrom(...choices);
}

const RUNS = 2000;

const POSTED = "as posted";
const SUBSTITUTED = "$id and $tag substituted";
const HOST = "scheme and host in lower case, host in Punycode or as an address";
const PORT = "port in decimal, default port dropped";
const PATH = "path and query encoded, dot segments resolved";
const ADDED = "path / added, query encoded";
const FRAGMENT = "fragment dropped";

test("urlSteps returns the steps that change the URL", () => {
  const cases: readonly [raw: string, steps: readonly (readonly [string, string])[]][] = [
    ["https://h.example/x?y=1", []],
    ["https://h.example", [[ADDED, "https://h.example/"]]],
    ["https://h.example?", [[ADDED, "https://h.example/?"]]],
    ["https://h.example/?#", [[FRAGMENT, "https://h.example/?"]]],
    ["http://h.example:080/", [[PORT, "http://h.example/"]]],
    ["http://0x7f.1:9000/", [[HOST, "http://127.0.0.1:9000/"]]],
    [
      "HTTPS://Bücher.example:443/a/../$id b?t=$tag#top #x",
      [
        [SUBSTITUTED, `HTTPS://Bücher.example:443/a/../${ID} b?t=%C3%A4#top #x`],
        [HOST, `https://xn--bcher-kva.example:443/a/../${ID} b?t=%C3%A4#top #x`],
        [PORT, `https://xn--bcher-kva.example/a/../${ID} b?t=%C3%A4#top #x`],
        [PATH, `https://xn--bcher-kva.example/${ID}%20b?t=%C3%A4#top #x`],
        [FRAGMENT, `https://xn--bcher-kva.example/${ID}%20b?t=%C3%A4`],
      ],
    ],
    [
      "http://h.example/a #f",
      [
        [PATH, "http://h.example/a%20#f"],
        [FRAGMENT, "http://h.example/a%20"],
      ],
    ],
  ];

  for (const [raw, steps] of cases) {
    const expected = [[POSTED, raw], ...steps].map(([step, url]) => ({ step, url }));
    assert.deepEqual(urlSteps(raw, { id: ID, tag: "ä" }), expected);
  }
});

test("placeholders stay without values", () => {
  const raw = "https://h.example/$id";
  assert.deepEqual(urlSteps(raw, null), [{ step: POSTED, url: raw }]);
});

test("the last step is the substituted text if a URL has no normal form", () => {
  assert.deepEqual(urlSteps("ftp://h.example/$id", { id: ID, tag: null }), [
    { step: POSTED, url: "ftp://h.example/$id" },
    { step: SUBSTITUTED, url: `ftp://h.example/${ID}` },
  ]);
});

test("the last step is the requested URL, and it has no further steps", () => {
  let judged = 0;
  fc.assert(
    fc.property(hostileUrl(), fc.option(fc.string()), (raw, tag) => {
      const values = { id: ID, tag };
      const postback = judgeWebhookUrl(raw, POLICY);
      const pingback = judgePingbackUrl(raw, { values, policy: POLICY });
      if (postback.kind === "allowed") {
        assert.equal(urlSteps(raw, null).at(-1)?.url, postback.target.url);
        judged += 1;
      }
      if (pingback.kind !== "allowed") return;
      const last = urlSteps(raw, values).at(-1)?.url ?? "";
      assert.equal(last, pingback.target.url);
      assert.deepEqual(
        urlSteps(last, values).map(({ url }) => url),
        [last],
      );
    }),
    { numRuns: RUNS },
  );
  assert.ok(judged > RUNS / 20, `${judged} URLs were allowed`);
});

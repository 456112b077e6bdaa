import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import {
  judgePingbackUrl,
  judgeWebhookUrl,
  urlSteps,
} from "../../src/domain/webhook/webhook-url.ts";
import { hostileUrl } from "./hostile-urls.ts";
import { POLICY } from "./webhook-url-cases.ts";

const ID = "0199d0a0-7c1e-7000-8000-00000000000a";
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

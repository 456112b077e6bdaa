import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { decideAuthentication, parseAuthorization } from "../../src/domain/account/credentials.ts";
import type { Credentials, KeyHolder } from "../../src/domain/account/credentials.ts";
import { anyText } from "../helpers/any-text.ts";
import { NO_OWN_LIMITS } from "../helpers/store.ts";

const KEY = `pbd_live_${"x".repeat(40)}`;

function base64(text: string | Uint8Array): string {
  return Buffer.from(text).toString("base64");
}

test("Basic is split into login and key at the first colon", () => {
  const cases = [
    ["ada:key", "ada", "key"],
    ["ada:a:b:", "ada", "a:b:"],
    [":key", "", "key"],
    ["ada:", "ada", ""],
    [":", "", ""],
    ["\u00e4\u{1F600}:\u00fc", "\u00e4\u{1F600}", "\u00fc"],
    ["\ufeffada:key", "\ufeffada", "key"],
    [`${"a".repeat(64)}:${KEY}`, "a".repeat(64), KEY],
  ] as const;

  for (const [text, login, key] of cases) {
    const expected = { kind: "basic", login, key };
    assert.deepEqual(parseAuthorization([`Basic ${base64(text)}`]), expected, text);
  }
});

test("a key is parsed from Bearer, and the scheme has any case", () => {
  assert.deepEqual(parseAuthorization([`Bearer ${KEY}`]), { kind: "bearer", key: KEY });
  for (const scheme of ["basic", "BASIC", "bAsIc", "bearer", "BEARER", "BeArEr"]) {
    const parsed = parseAuthorization([`${scheme} ${base64("ada:key")}`]);
    assert.equal(parsed?.kind, scheme.toLowerCase(), scheme);
  }
});

const padded = base64("ada:key1");
const malformed: Readonly<Record<string, readonly string[]>> = {
  "no header": [],
  "an empty header": [""],
  "two headers": [`Bearer ${KEY}`, `Bearer ${KEY}`],
  "two headers of two schemes": [`Basic ${base64("ada:key")}`, `Bearer ${KEY}`],
  "two headers in one line": [`Bearer ${KEY}, Bearer ${KEY}`],
  "a scheme alone": ["Basic"],
  "a scheme and a space": ["Basic "],
  "a token alone": [KEY],
  "another scheme": [`Digest ${KEY}`],
  "a scheme with a prefix": [`XBasic ${base64("ada:key")}`],
  "no space": [`Basic${base64("ada:key")}`],
  "two spaces": [`Basic  ${base64("ada:key")}`],
  "a tab": [`Basic\t${base64("ada:key")}`],
  "white space before": [` Bearer ${KEY}`],
  "white space behind": [`Bearer ${KEY} `],
  "a line break behind": [`Bearer ${KEY}\n`],
  "white space within a Bearer token": ["Bearer a b"],
  "characters beyond ASCII in a Bearer token": ["Bearer k\u00e4y"],
  "a control character in a Bearer token": ["Bearer k\u0000y"],
  "Base64 without its padding": [`Basic ${padded.replaceAll("=", "")}`],
  "Base64 with too little padding": [`Basic ${base64("ada:key12").slice(0, -1)}`],
  "Base64 with padding in the middle": [`Basic ${base64("ada:")}${base64("key")}`],
  "Base64 with too much padding": [`Basic ${base64("ada:key")}=`],
  "Base64 with a line break": [
    `Basic ${base64("ada:key").slice(0, 4)}\n${base64("ada:key").slice(4)}`,
  ],
  "Base64 with a space": [`Basic ${base64("ada:key").slice(0, 4)} ${base64("ada:key").slice(4)}`],
  "Base64 of the URL alphabet": [
    `Basic ${Buffer.from("ada:\u00ff\u00fe?>").toString("base64url")}`,
  ],
  "text that is not Base64": ["Basic ada:key"],
  "no colon": [`Basic ${base64("adakey")}`],
  "nothing within": ["Basic ===="],
  "bytes that are not UTF-8": [`Basic ${base64(Buffer.from([0x61, 0x3a, 0xff]))}`],
  "an overlong encoding of a colon": [`Basic ${base64(Buffer.from([0x61, 0xc0, 0xba, 0x62]))}`],
  "half of a surrogate pair in UTF-8": [
    `Basic ${base64(Buffer.from([0x61, 0x3a, 0xed, 0xa0, 0x80]))}`,
  ],
  "more than any login and key can be": [`Basic ${base64(`ada:${"k".repeat(1000)}`)}`],
  "a Bearer token longer than any key": [`Bearer ${"k".repeat(1100)}`],
};
test("a malformed header returns null", () => {
  for (const [what, headers] of Object.entries(malformed)) {
    assert.equal(parseAuthorization(headers), null, what);
  }
});

test("every login and key survives the encoding", () => {
  const text = anyText(60);
  fc.assert(
    fc.property(text, text, (login, key) => {
      fc.pre(!login.includes(":"));

      const parsed = parseAuthorization([`Basic ${base64(`${login}:${key}`)}`]);

      assert.deepEqual(parsed, { kind: "basic", login, key });
    }),
  );
});

test("any header is parsed without an exception", () => {
  const header = fc.tuple(fc.constantFrom("Basic ", "Bearer ", ""), anyText());
  fc.assert(
    fc.property(header, ([scheme, rest]) => {
      const parsed = parseAuthorization([scheme + rest]);
      assert(parsed === null || typeof parsed.key === "string");
    }),
  );
});

const basic: Credentials = { kind: "basic", login: "ada", key: KEY };
const foreign: Credentials = { kind: "basic", login: "Ada", key: KEY };
const bearer: Credentials = { kind: "bearer", key: KEY };
/** Credentials, whether the key is revoked and the account disabled, and the code. */
const VERDICTS = [
  ...[[foreign, true, true, 40100] as const, [foreign, false, false, 40100] as const],
  ...[basic, bearer].flatMap(
    (each) =>
      [
        [each, true, true, 40101],
        [each, true, false, 40101],
        [each, false, true, 40102],
        [each, false, false, null],
      ] as const,
  ),
];

test("authentication checks the login, then the key, then the account", () => {
  for (const [credentials, keyRevoked, accountDisabled, code] of VERDICTS) {
    const holder: KeyHolder = {
      ...{ accountId: 1, login: "ada", keyId: "key_x" },
      ...{ keyRevoked, accountDisabled, ownLimits: NO_OWN_LIMITS },
    };
    const expected = code === null ? { kind: "authenticated", holder } : { kind: "refused", code };
    assert.deepEqual(decideAuthentication(credentials, holder), expected);
  }
  for (const credentials of [basic, foreign, bearer]) {
    assert.deepEqual(decideAuthentication(credentials, null), { kind: "refused", code: 40100 });
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { EMAIL, EMAIL_LENGTH_MAX, whyUndecidable } from "../../src/domain/account/account.ts";
import {
  decideAuthentication,
  parseAuthorization,
  type Credentials,
  type KeyHolder,
} from "../../src/domain/account/credentials.ts";
import {
  countEvents,
  excessOf,
  hasRoomBeside,
  limitsOf,
  openTasksOf,
  type PostQuota,
  type RateWindow,
} from "../../src/domain/account/quota.ts";
import { anyText } from "../helpers/any-text.ts";
import { NO_OWN_LIMITS } from "../helpers/store.ts";

const isEmail = (text: string): boolean => EMAIL.parse(text).kind === "value";

const HOSTILE: readonly string[] = [
  // A second line would be a header of the mail.
  ...["a@b.example\n", "\na@b.example", "a@b.example\r\nBcc: c@d.example", "a\r\n@b.example"],
  ...["a\u0000@b.example", "a@b.example\u0000", "a\u001b[2J@b.example", "a@\u009b2Jb.example"],
  // Characters that reverse, join or hide text.
  ...["a\u202e@b.example", "a\u200b@b.example", "a@\u2066b.example", "\ufeffa@b.example"],
  ...["a@b.example\u{e0041}", "a\u00ad@b.example", "a@b\u2028.example", "a@b\u3000.example"],
  // Lone surrogates.
  ...["\ud800@b.example", "a@\udfff.example", "a@b.example\ud83d"],
  // More than one address, or an address with a name.
  ...["a@b@c.example", "a@b.example,c@d.example", "a@b.example;c@d.example", "a:b@c.example;"],
  ...["<a@b.example>", "Ann <a@b.example>", '"a b"@c.example', "a(b)@c.example", "a@[127.0.0.1]"],
  ...["a\\@b.example", "a b@c.example", " a@b.example", "a@b.example ", "mailto:a@b.example"],
  ...["", "@", "a", "a@", "@b", "a.b.example", "null", "[object Object]", "a＠b.example"],
];

test("hostile text is not an e-mail address", () => {
  for (const text of HOSTILE) assert.equal(isEmail(text), false, JSON.stringify(text));
});

test("an address that mail servers accept is an e-mail address", () => {
  const addresses =
    "a@b a@b.example first.last+tag@sub.b.example o'neil@b.example a/b=c@d.example _@b.example " +
    "a@1.2.3.4 üser@bücher.example 用户@例子.example 😀@b.example !#$%&*{}|~^`?@b.example " +
    "UPPER@CASE.EXAMPLE __proto__@b.example";
  for (const text of addresses.split(" ")) assert.equal(isEmail(text), true, text);
});

test("an e-mail address has at most 254 characters", () => {
  const domain = "@b.example";
  const longest = "a".repeat(EMAIL_LENGTH_MAX - domain.length) + domain;

  assert.equal(longest.length, 254);
  assert.equal(isEmail(longest), true);
  assert.equal(isEmail(`a${longest}`), false);
  assert.equal(isEmail("a@".repeat(5_000_000)), false);
});

test("an e-mail address is one @ between plain characters", () => {
  const plain = fc.constantFrom("a", "0", ".", "-", "+", "é", "😀");
  const wrong = fc.constantFrom(...'@ \n\0\u009b\u202e<,"\ud800');
  const text = fc.array(fc.oneof({ weight: 9, arbitrary: plain }, wrong), { maxLength: 12 });
  const PLAIN = /^(?:[a0.+é-]|😀)+$/u;
  fc.assert(
    fc.property(text, text, (before, behind) => {
      const [local, domain] = [before.join(""), behind.join("")];

      assert.equal(isEmail(`${local}@${domain}`), PLAIN.test(local) && PLAIN.test(domain));
    }),
    { numRuns: 2000 },
  );
});

test("an existing request is decided once", () => {
  assert.equal(whyUndecidable(undefined), "unknown");
  assert.equal(whyUndecidable(null), null);
  assert.equal(whyUndecidable("approved"), "decided");
  assert.equal(whyUndecidable("denied"), "decided");
});

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

const NO_LIMITS: PostQuota = { bytes: 0, openTasks: 0, shareBytes: 0 };
const USED = { bytes: 90, openTasks: 9 };

const POSTS: readonly (readonly [string, Partial<PostQuota>, keyof PostQuota | null])[] = [
  ["no limits", {}, null],
  ["exactly its bytes", { bytes: 100 }, null],
  ["beyond its bytes", { bytes: 99 }, "bytes"],
  ["beyond its share of the disk space", { shareBytes: 99 }, "shareBytes"],
  ["exactly its open tasks", { openTasks: 11 }, null],
  ["beyond its open tasks", { openTasks: 10 }, "openTasks"],
  ["beyond all limits", { bytes: 1, shareBytes: 1, openTasks: 1 }, "bytes"],
];

test("a post is refused by the first limit that it exceeds, and is accepted if it adds nothing to one", () => {
  for (const [when, limits, over] of POSTS) {
    const quota = { ...NO_LIMITS, ...limits };

    const excess = excessOf({ bytes: 10, openTasks: 2 }, { used: USED, quota });

    assert.equal(excess?.quota ?? null, over, when);
    if (over !== null) assert.equal(excess?.limit, quota[over]);
  }
  const full = { ...NO_LIMITS, openTasks: 5 };
  assert.equal(excessOf({ bytes: 10, openTasks: 0 }, { used: USED, quota: full }), null);
});

test("one more is allowed until the maximum", () => {
  const allowed = [0, 19, 20, 21].map((used) => hasRoomBeside(used, 20));
  assert.deepEqual(allowed, [true, true, false, false]);
});

test("an account's own limits replace the configured limits, and 0 disables a limit", () => {
  const standard = { bytes: 1, openTasks: 2, requestsPerMinute: 3, tasksPerMinute: 4 };
  const own = { bytes: 0, openTasks: null, requestsPerMinute: 9, tasksPerMinute: null };

  assert.deepEqual(limitsOf(own, standard), { ...standard, bytes: 0, requestsPerMinute: 9 });
});

test("queued, delayed and running tasks are open", () => {
  assert.equal(openTasksOf({ queued: 1, delayed: 10, running: 100 }), 111);
});

const RULE = { limit: 3, windowMs: 60_000 };

test("a window allows the limit from its first event on, and refused events do not move its end", () => {
  let window: RateWindow | null = null;
  const seen = [];
  for (const now of [1000, 1000, 30_000, 30_001, 60_999, 61_000]) {
    const counted = countEvents(window, { now, rule: RULE });
    ({ window } = counted);
    seen.push([counted.verdict.isAllowed, counted.verdict.remaining, counted.verdict.resetSeconds]);
  }

  assert.deepEqual(seen, [
    [true, 2, 60],
    [true, 1, 60],
    [true, 0, 31],
    [false, 0, 31],
    [false, 0, 1],
    [true, 2, 60],
  ]);
  assert.deepEqual(window, { startedAt: 61_000, count: 1 });
});

test("a limit of 0 allows everything", () => {
  const at = { now: 0, rule: { limit: 0, windowMs: 60_000 } };

  assert.equal(countEvents({ startedAt: 0, count: 9 }, at).verdict.isAllowed, true);
  assert.equal(countEvents(null, at).verdict.remaining, Infinity);
});

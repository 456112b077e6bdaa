import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import { HOST } from "../../src/domain/address/host-name.ts";
import { parseServerUrl } from "../../src/domain/address/server-url.ts";
import {
  DURATION,
  integerBetween,
  numberBetween,
  oneOf,
  PLAIN_TEXT,
  plainLines,
  plainText,
  type Rule,
  sizeBetween,
  someOf,
  TRUTH,
} from "../../src/domain/rule.ts";
import { parseTaskSearch } from "../../src/domain/task/task-search.ts";
import {
  COMMAND_LINE_READER,
  explainAttempt,
} from "../../src/domain/webhook/delivery-explanation.ts";
import {
  checkSignature,
  signStandardWebhook,
  signWebhook,
} from "../../src/domain/webhook/signature.ts";
import { judgeWebhookUrl } from "../../src/domain/webhook/webhook-url.ts";
import { assertSentences } from "../helpers/sentences.ts";
import { ATTEMPTS, HOOK, SCHEDULED, SENDING, T0 } from "./attempt-cases.ts";
import { POLICY, REFUSALS } from "./webhook-url-cases.ts";

type Sentence = readonly [cause: string, sentence: string];

const ALLOW_ENTRIES = [
  ...["", " receiver.lan", "a.example, b.example", "10.1.2.3/16", "fd00::1/8", "[10.0.0.1]:80"],
  ...["[receiver.lan]", "[::1]9000", "::1::9000", "receiver.lan:", "receiver.lan:0"],
  ...["receiver.lan:080", "receiver.lan:65536", "receiver.lan:http", "10.0.0.0/33", "10/8"],
  ...["receiver.lan/path", "http://receiver.lan/", "user@receiver.lan", "*.lan", "fe80::1%eth0"],
  ...["127.1", "0x7f000001", "127.0.0.1.", "receiver.lan.", "a..b", `${"a".repeat(64)}.example`],
  ...["a!b.example", "a^b.example", "1.2.3.4.5"],
];

function allowEntrySentences(): readonly Sentence[] {
  const verdict = parseAllowList(ALLOW_ENTRIES);
  assert.ok(verdict.kind === "fault");
  const sentences = verdict.problems.map(({ entry, reason }): Sentence => [entry, reason]);
  // All faulty entries are reported together, in their order.
  assert.deepEqual(
    sentences.map(([entry]) => entry),
    ALLOW_ENTRIES,
  );
  return sentences;
}

const SERVER_URLS = [
  ...["app:a@b@db/x", "db/x", "app@db/", "app@/x", "app@db/x/y", "app@db/x#y", "a%00b@db/x"],
  ...["app@db/x?sslmod=require", "app@db/x?__proto__=1", "app@db/x?constructor=1"],
  ...[
    "app@db/x?sslmode=prefer",
    "app@db/x?sslmode=yes",
    "app@db/x?sslmode=require&sslmode=disable",
  ],
  ...["app@db/x?sslcert=/a.pem", "app@db/x?sslrootcert=ca.pem", "app@db/x?host=/run/postgresql"],
  ...["app@db/x?port=1", "app@db/x?connect_timeout=0", "app@db/x?channel_binding=require"],
  ...["app@db/x?options=-c%20synchronous_commit%3Doff", "app@db/x?dbname=y", "app@db:0/x"],
  ...["app@db/x?options=-c%20search_path%3Da%20-c%20fsync%3Doff", "app@a,,b/x", "app@::1/x"],
  ...["app@[nope]/x", "app@a..b/x", `app@db/${"x".repeat(64)}`, `app@${"a,".repeat(16)}a/x`],
];

function serverUrlSentence(rest: string): Sentence {
  const url = `postgres://${rest}`;
  const parsed = parseServerUrl(url);
  assert.ok(parsed.kind === "fault", url);
  return [url, parsed.reason];
}

const RULES: readonly (readonly [of: Rule<unknown>, raw: unknown])[] = [
  ...[10, 1.5, NaN, "1", null, [1]].map((raw) => [integerBetween(1, 9), raw] as const),
  [numberBetween(0, 1), 1.01],
  [plainText(3), "abcd"],
  [plainLines(3), "\0"],
  [someOf(["low", "high"]), ["low", "mid"]],
  [oneOf(["low", "high"]), "Low"],
  [TRUTH, 1],
  [PLAIN_TEXT, "\u001b[1m"],
  [PLAIN_TEXT, "\u009b1m"],
  [DURATION, "366d"],
  [DURATION, "10"],
  [sizeBetween(1, 4096), "1kb"],
  [HOST, "[::1]:80"],
];

function ruleSentence([of, raw]: (typeof RULES)[number]): Sentence {
  const parsed = of.parse(raw);
  assert.ok(parsed.kind === "fault", String(raw));
  return [`a rule, ${typeof raw === "string" ? JSON.stringify(raw) : String(raw)}`, parsed.reason];
}

const UUID = "01890a5d-ac96-774b-bcce-b302099a8057";
const SEARCHES = [
  ...["state:done", "delivery:lost", "colour:red", "__proto__:x", "constructor:x", "http://x/"],
  ...["state:", "state:,", "state:queued,", "code:5001", "code:-5001", "code:5001x", "code:٥٠٠١٠"],
  ...["after:", "after:2y", "after:-2h", "before:tomorrow", "after:9999999h", "after:2030-02-30"],
  ...[`id:${UUID}0`, "account:a/b", "type:", `tag:${"x".repeat(256)}`, "a\u0007", "host:"],
  ...["host:a.example:80", "state:queued state:failed", "two words", `${UUID} id:${UUID}`],
  ...["after:1h after:2h", '"', 'tag:"a', 'tag:"a"b', 'tag:a"b"', '"a"b c"', 'tag:"a\\"', '""""'],
];

function searchSentence(text: string): Sentence {
  const parsed = parseTaskSearch(text, T0);
  assert.ok("problem" in parsed, text);
  return [text, parsed.problem];
}

function refusalSentence([rule, [url]]: (typeof REFUSALS)[number]): Sentence {
  const verdict = judgeWebhookUrl(url, POLICY);
  assert.ok(verdict.kind === "refused");
  return [`${rule}: ${url.toWellFormed()}`, verdict.reason];
}

const SECRET = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;
const BARE = SECRET.slice("whsec_".length);
const BODY = '{"status_code":20000,"tasks":[{"result":1.10}]}';
const SIGNATURE = signWebhook(BODY, SECRET);
const HEX = SIGNATURE.slice("sha256=".length);

function hmacOfBody(key: string | Uint8Array): string {
  return `sha256=${createHmac("sha256", key).update(BODY).digest("hex")}`;
}

/** Faulty signatures of the body, and faulty secrets. */
const SIGNATURES: Readonly<Record<string, { signature?: string; secret?: string; body?: string }>> =
  {
    "no prefix": { signature: HEX },
    "an upper-case prefix": { signature: `SHA256=${HEX}` },
    "another algorithm": { signature: `sha1=${HEX}` },
    "upper-case hex": { signature: `sha256=${HEX.toUpperCase()}` },
    Base64: { signature: `sha256=${Buffer.from(HEX, "hex").toString("base64")}` },
    "Base64 for URLs, no prefix": { signature: Buffer.from(HEX, "hex").toString("base64url") },
    "white space": { signature: `${SIGNATURE}\n` },
    "the header's name": { signature: `X-Signature: ${SIGNATURE}` },
    "the prefix alone": { signature: "sha256=" },
    "too few digits": { signature: SIGNATURE.slice(0, -1) },
    "too many digits": { signature: `${SIGNATURE}0` },
    "text that is not hex": { signature: "sha256=signature" },
    "the other header": {
      signature: signStandardWebhook({ id: "msg", timestamp: 1, body: BODY }, [SECRET]),
    },
    "a secret without its prefix": { secret: BARE },
    "a secret with a line break": { secret: `${SECRET}\n` },
    "signed without the prefix of the secret": { signature: hmacOfBody(BARE) },
    "signed by the bytes of the secret": { signature: hmacOfBody(Buffer.from(BARE, "base64")) },
    "an API key as the secret": { secret: `pbd_live_${"a".repeat(40)}` },
    "another text as the secret": { secret: "hunter2" },
    "three faults": { signature: HEX, secret: BARE, body: `${BODY}\n` },
  };

/** Signed bodies, and the bodies that came. */
const BODIES = [
  [BODY, `${BODY}\n`],
  [BODY, `${BODY}\r\n`],
  [`${BODY}\n`, BODY],
  ["{\n}\n", "{\r\n}\r\n"],
  ["{\r\n}\r\n", "{\n}\n"],
  [BODY, `\ufeff${BODY}`],
  // JSON formatted by an editor or a framework.
  ['{"a":1.10,"b":[]}', '{ "a": 1.10,\n"b": [ ] }'],
  // A receiver that signs the body after parsing it.
  ['{"result":1.1}', '{"result":1.10}'],
  ['{\n  "a": 1\n}', '{"a":1}'],
  // Python's json.dumps: by default, with ensure_ascii=False, with compact separators.
  [String.raw`{"a": 1.0, "b": ["x, y:", "\u00fc\u007f"]}`, '{"a":1.0,"b":["x, y:","ü\u007f"]}'],
  ['{"a": "ü"}', '{"a":"ü"}'],
  [String.raw`{"a":"\ud83d\ude00"}`, '{"a":"😀"}'],
] as const;

/** Signed URLs, and the URLs that came. */
const URLS = [
  ["https://example.com/a%20b", "https://example.com/a b"],
  ["https://example.com/?x", "HTTPS://Example.COM?x#top"],
  ["https://example.com/", "https://example.com:443/"],
  ["http://example.com/x", "https://example.com/x"],
  ["https://example.com/x", "http://example.com/x"],
  ["https://example.com/x", "http://example.com:80/x"],
  ["https://example.com/x%20y", "http://example.com:443/x y"],
  ["/x?y=1", "https://example.com/x?y=1"],
] as const;

function signatureSentences(): readonly Sentence[] {
  const sentenceOf = (cause: string, given: Parameters<typeof checkSignature>[0]): Sentence => {
    const verdict = checkSignature(given);
    assert.ok(verdict.kind === "invalid", cause);
    return [`verify, ${cause}`, verdict.reasons.join(" ")];
  };
  const bodyOf = (text: string) => ({ kind: "body", bytes: Buffer.from(text) }) as const;
  const faults = Object.entries(SIGNATURES).map(([cause, { body = BODY, ...given }]) =>
    sentenceOf(cause, { signature: SIGNATURE, secret: SECRET, message: bodyOf(body), ...given }),
  );
  const changes = [
    ...BODIES.map(([signed, came]) => [signed, came, bodyOf(came)] as const),
    ...URLS.map(([signed, url]) => [signed, url, { kind: "url", url }] as const),
  ].map(([signed, came, message]) => {
    const cause = `${JSON.stringify(signed)} signed, ${JSON.stringify(came)} received`;
    return sentenceOf(cause, { signature: signWebhook(signed, SECRET), secret: SECRET, message });
  });
  return [...faults, ...changes];
}

test("each fault and explanation has its sentence", (t) => {
  const account = { login: "ada", disabledAt: T0 - 60_000 };
  const causes = [
    ...Object.entries(ATTEMPTS).map(([cause, attempt]) => [cause, attempt, SENDING] as const),
    ["due, of a disabled account", SCHEDULED, { ...SENDING, account }] as const,
  ];
  const explanations = causes.flatMap(([cause, attempt, circumstances]) => {
    const [operators, accounts] = (["operator", "account"] as const).map((role) => {
      const reader = { ...COMMAND_LINE_READER, role };
      return explainAttempt(attempt, { ...circumstances, url: HOOK, reader });
    });
    const shown: Sentence[] = [[cause, operators ?? ""]];
    if (accounts !== operators) shown.push([`${cause}, to the account`, accounts ?? ""]);
    return shown;
  });
  const sentences = [
    ...[...allowEntrySentences(), ...SERVER_URLS.map(serverUrlSentence)],
    ...[...RULES.map(ruleSentence), ...SEARCHES.map(searchSentence)],
    ...[...REFUSALS.map(refusalSentence), ...explanations, ...signatureSentences()],
  ];
  assertSentences(
    t,
    import.meta.dirname,
    sentences.map(([cause, sentence]) => [cause.replaceAll(/\p{Cc}/gu, "\u{fffd}"), sentence]),
  );
});

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";

import fc from "fast-check";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { signWebhook } from "../../src/domain/webhook/signature.ts";
import * as library from "../../src/index.ts";
import { verifyPingback, verifyPostback } from "../../src/verify.ts";

const SECRET = newWebhookSecret();
const BODY = '{"status_code":20000,"tasks":[{"result":"ü😀"}]}';
const SIGNATURE = signWebhook(BODY, SECRET);
const HEX = SIGNATURE.slice("sha256=".length);
const URL_SENT = "https://receiver.example/p?id=0198&t=%C3%BC";
const URL_SIGNATURE = signWebhook(URL_SENT, SECRET);

function toArrayBuffer(bytes: Uint8Array): ArrayBuffer {
  const copy = new ArrayBuffer(bytes.length);
  new Uint8Array(copy).set(bytes);
  return copy;
}

test("the package gives both functions, beside what embeds the daemon", () => {
  const { createDaemon, createVirtualClock, ...others } = library;

  assert.deepEqual({ ...others }, { verifyPingback, verifyPostback });
  assert.deepEqual([typeof createDaemon, typeof createVirtualClock], ["function", "function"]);
});

test("agrees with the published vectors whose keys are text", async () => {
  const text = readFileSync(new URL("fixtures/hmac/hmac-sha256.vec", import.meta.url), "utf8");
  const vectors = [...text.matchAll(/^Key = (\w*)\nIn = (\w*)\nOut = (\w+)$/gm)].map((match) =>
    match.slice(1).map((hex) => Buffer.from(hex, "hex")),
  );
  let count = 0;
  for (const [key = Buffer.of(), message = Buffer.of(), tag = Buffer.of()] of vectors) {
    const secret = key.toString();
    if (!Buffer.from(secret).equals(key)) continue;
    const header = `sha256=${tag.toString("hex")}`;
    assert.equal(await verifyPostback(message, header, secret), true);
    assert.equal(await verifyPostback(Buffer.concat([message, key]), header, secret), false);
    count++;
  }
  assert(count >= 5, `${count} vectors`);
});

test("verifies what GitHub's documentation of the same header shows", async () => {
  const header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

  assert.equal(await verifyPostback("Hello, World!", header, "It's a Secret to Everybody"), true);
});

const text = fc.string({ unit: "binary" });
const secretText = text.filter((each) => each !== "");

test("takes what the daemon signs, as text and as bytes, and nothing one character off", async () => {
  const property = fc.asyncProperty(text, secretText, text, async (message, secret, other) => {
    const header = signWebhook(message, secret);
    const bytes = Buffer.from(message);
    assert.equal(await verifyPostback(message, header, secret), true);
    assert.equal(await verifyPostback(bytes, header, secret), true);
    assert.equal(await verifyPostback(toArrayBuffer(bytes), header, secret), true);
    assert.equal(await verifyPostback(other, header, secret), other === message);
    assert.equal(await verifyPostback(message, header, `${secret}x`), false);
    const url = `http://a.example/${message}`;
    assert.equal(await verifyPingback(url, signWebhook(url, secret), secret), true);
    assert.equal(await verifyPingback(`${url}x`, signWebhook(url, secret), secret), false);
  });
  await fc.assert(property);
});

test("answers true or false to every header and body", async () => {
  const header = fc.oneof(
    text,
    fc.stringMatching(/^sha256=[0-9a-fA-F]{60,68}$/),
    fc.constantFrom(null, undefined),
    fc.array(fc.constant(SIGNATURE)),
  );
  const body = fc.oneof(fc.uint8Array(), fc.string({ unit: "binary" }));
  await fc.assert(
    fc.asyncProperty(header, body, async (value, message) => {
      assert.equal(await verifyPostback(message, value, SECRET), false);
      assert.equal(await verifyPingback(`http://${message.toString()}`, value, SECRET), false);
    }),
  );
});

test("takes one form of the header only", async () => {
  const wrong = [
    ...["", "sha256=", HEX, `sha256=${HEX.toUpperCase()}`, `SHA256=${HEX}`, `sha1=${HEX}`],
    ...[
      `${SIGNATURE}0`,
      SIGNATURE.slice(0, -1),
      `${SIGNATURE}\n`,
      ` ${SIGNATURE}`,
      `${SIGNATURE} `,
    ],
    ...[`${SIGNATURE}, ${SIGNATURE}`, `sha256= ${HEX}`, `sha256=${HEX.replace(/./, "g")}`],
    `sha256=${Buffer.from(HEX, "hex").toString("base64")}`,
    // Full-width digits, which some parsers read as digits.
    `sha256=${HEX.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))}`,
  ];
  for (const header of wrong) {
    assert.equal(await verifyPostback(BODY, header, SECRET), false, header);
  }
  assert.equal(await verifyPostback(BODY, SIGNATURE, SECRET), true);
});

test("is false for what is no header of one value", async () => {
  const values: readonly unknown[] = [
    null,
    undefined,
    [],
    [SIGNATURE],
    1,
    true,
    {},
    Buffer.from(HEX),
  ];
  for (const value of values) {
    // What a framework hands out, whatever its types say.
    const header = value as string;
    assert.equal(await verifyPostback(BODY, header, SECRET), false);
    assert.equal(await verifyPingback(URL_SENT, header, SECRET), false);
  }
});

test("is false for half of a surrogate pair, which has no UTF-8", async () => {
  const replaced = signWebhook("http://a/\ufffd", SECRET);
  assert.equal(await verifyPostback("http://a/\ud83d", replaced, SECRET), false);
  assert.equal(await verifyPingback("http://a/\ud83d", replaced, SECRET), false);
  assert.equal(await verifyPingback("http://a/\ufffd", replaced, SECRET), true);
});

test("verifies with any of several secrets, wherever it stands", async () => {
  const others = [newWebhookSecret(), newWebhookSecret()];

  for (const secrets of [SECRET, [SECRET], [SECRET, ...others], [...others, SECRET]]) {
    assert.equal(await verifyPostback(BODY, SIGNATURE, secrets), true);
    assert.equal(await verifyPingback(URL_SENT, URL_SIGNATURE, secrets), true);
  }
  assert.equal(await verifyPostback(BODY, SIGNATURE, others), false);
  assert.equal(await verifyPingback(URL_SENT, URL_SIGNATURE, others), false);
});

test("verifies in a rotation with the old secret, the new one or both", async () => {
  const next = newWebhookSecret();
  const signatureNext = signWebhook(BODY, next);

  assert.equal(await verifyPostback(BODY, SIGNATURE, SECRET), true);
  assert.equal(await verifyPostback(BODY, SIGNATURE, [SECRET, next]), true);
  assert.equal(await verifyPostback(BODY, signatureNext, [SECRET, next]), true);
  assert.equal(await verifyPostback(BODY, signatureNext, next), true);
  assert.equal(await verifyPostback(BODY, SIGNATURE, next), false);
});

test("takes a view of bytes for the bytes that it shows", async () => {
  const around = Buffer.from(`<${BODY}>`);
  const shown = around.subarray(1, -1);

  assert.equal(await verifyPostback(shown, SIGNATURE, SECRET), true);
  assert.equal(await verifyPostback(around, SIGNATURE, SECRET), false);
});

test("takes bytes that were made in another realm", async () => {
  const context = createContext({ list: [...Buffer.from(BODY)] });
  const bytes: Uint8Array = runInContext("new Uint8Array(list)", context);
  assert.equal(bytes instanceof Uint8Array, false);

  assert.equal(await verifyPostback(bytes, SIGNATURE, SECRET), true);
  const buffer: ArrayBuffer = runInContext("new Uint8Array(list).buffer", context);
  assert.equal(await verifyPostback(buffer, SIGNATURE, SECRET), true);
});

test("verifies the bytes as they were when it was called", async () => {
  const body = Buffer.from(BODY);
  const verdict = verifyPostback(body, SIGNATURE, SECRET);
  body.fill(0);

  assert.equal(await verdict, true);
});

test("is false for a request without a body, whatever a framework makes of it", async () => {
  for (const nothing of [null, undefined, {}, "", Buffer.of()]) {
    // A sender decides whether there is a body: it may not make a receiver throw.
    assert.equal(await verifyPostback(nothing as string, SIGNATURE, SECRET), false);
  }
});

test("refuses a body that was parsed, and says what to pass", async () => {
  const parsed: readonly unknown[] = [
    ...[JSON.parse(BODY), [1], 1, true, Promise.resolve(BODY), new Request("http://a.example")],
    new Blob([BODY]),
  ];
  for (const body of parsed) {
    const isTold = { name: "TypeError", message: /raw bytes of the request .*before any parser/ };
    await assert.rejects(verifyPostback(body as string, SIGNATURE, SECRET), isTold);
    // Also when the header is wrong: a mistake of the program shows before the first webhook.
    await assert.rejects(verifyPostback(body as string, null, SECRET), isTold);
  }
});

test("refuses a URL that is none, and says what to pass", async () => {
  const others: readonly unknown[] = [undefined, null, new URL(URL_SENT), 1];
  for (const url of others) {
    await assert.rejects(verifyPingback(url as string, URL_SIGNATURE, SECRET), {
      name: "TypeError",
      message: /as it was requested, not parsed/,
    });
  }
  await assert.rejects(verifyPingback("/p?id=0198", URL_SIGNATURE, SECRET), {
    name: "TypeError",
    message: /put scheme and host before it/,
  });
});

test("refuses to verify without a secret, and says so", async () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [[], /no secret .* at least one/],
    [undefined, /is its environment variable set/],
    [null, /is its environment variable set/],
    [[SECRET, undefined], /is its environment variable set/],
    [Buffer.from(SECRET), /has to be a text and is Uint8Array/],
    ["", /empty: leave it out/],
    [[SECRET, ""], /empty: leave it out/],
    [`${SECRET}\n`, /white space around it: trim it/],
    [`${SECRET}\r\n`, /white space around it: trim it/],
    [[SECRET, ` ${SECRET}`], /white space around it: trim it/],
    ["whsec_\ud83d", /no valid Unicode/],
  ];
  for (const [secrets, message] of cases) {
    const isTold = { name: "TypeError", message };
    await assert.rejects(verifyPostback(BODY, SIGNATURE, secrets as string), isTold);
    await assert.rejects(verifyPingback(URL_SENT, null, secrets as string), isTold);
  }
});

test("no error repeats a secret", async () => {
  for (const secrets of [`${SECRET} `, [SECRET, ""], `${SECRET}\ud83d`]) {
    const error: unknown = await verifyPostback(BODY, SIGNATURE, secrets).catch((each) => each);
    assert(error instanceof TypeError);
    assert(!error.message.includes(SECRET));
  }
});

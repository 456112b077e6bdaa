import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";

import fc from "fast-check";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { signWebhook } from "../../src/domain/webhook/signature.ts";
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

test("the published vectors with text keys verify", async () => {
  const text = readFileSync(new URL("../fixtures/hmac/hmac-sha256.vec", import.meta.url), "utf8");
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

const text = fc.string({ unit: "binary" });
const secretText = text.filter((each) => each !== "");

test("a daemon's signature verifies text and bytes, and no other text", async () => {
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

test("every other header and body is false", async () => {
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

test("only one form of the header verifies", async () => {
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

test("half of a surrogate pair is false: it has no UTF-8", async () => {
  const replaced = signWebhook("http://a/\ufffd", SECRET);
  assert.equal(await verifyPostback("http://a/\ud83d", replaced, SECRET), false);
  assert.equal(await verifyPingback("http://a/\ud83d", replaced, SECRET), false);
  assert.equal(await verifyPingback("http://a/\ufffd", replaced, SECRET), true);
});

test("any of several secrets verifies, in any order", async () => {
  const others = [newWebhookSecret(), newWebhookSecret()];

  for (const secrets of [SECRET, [SECRET], [SECRET, ...others], [...others, SECRET]]) {
    assert.equal(await verifyPostback(BODY, SIGNATURE, secrets), true);
    assert.equal(await verifyPingback(URL_SENT, URL_SIGNATURE, secrets), true);
  }
  assert.equal(await verifyPostback(BODY, SIGNATURE, others), false);
  assert.equal(await verifyPingback(URL_SENT, URL_SIGNATURE, others), false);
});

test("a view of bytes stands for its own bytes alone", async () => {
  const around = Buffer.from(`<${BODY}>`);
  const shown = around.subarray(1, -1);

  assert.equal(await verifyPostback(shown, SIGNATURE, SECRET), true);
  assert.equal(await verifyPostback(around, SIGNATURE, SECRET), false);
});

test("bytes of another realm verify", async () => {
  const context = createContext({ list: [...Buffer.from(BODY)] });
  const bytes: Uint8Array = runInContext("new Uint8Array(list)", context);
  assert.equal(bytes instanceof Uint8Array, false);

  assert.equal(await verifyPostback(bytes, SIGNATURE, SECRET), true);
  const buffer: ArrayBuffer = runInContext("new Uint8Array(list).buffer", context);
  assert.equal(await verifyPostback(buffer, SIGNATURE, SECRET), true);
});

test("a change of the bytes after the call has no effect", async () => {
  const body = Buffer.from(BODY);
  const verdict = verifyPostback(body, SIGNATURE, SECRET);
  body.fill(0);

  assert.equal(await verdict, true);
});

test("a request without a body is false, in the form of any framework", async () => {
  for (const nothing of [null, undefined, {}, "", Buffer.of()]) {
    // A sender decides whether there is a body: it may not make a receiver throw.
    assert.equal(await verifyPostback(nothing as string, SIGNATURE, SECRET), false);
  }
});

test("a parsed body is a TypeError", async () => {
  const parsed: readonly unknown[] = [
    ...[JSON.parse(BODY), [1], 1, true, Promise.resolve(BODY), new Request("http://a.example")],
    new Blob([BODY]),
  ];
  for (const body of parsed) {
    const isTold = { name: "TypeError", message: /raw bytes/ };
    await assert.rejects(verifyPostback(body as string, SIGNATURE, SECRET), isTold);
    // Also when the header is wrong: a mistake of the program shows before the first webhook.
    await assert.rejects(verifyPostback(body as string, null, SECRET), isTold);
  }
});

test("an invalid URL is a TypeError", async () => {
  const others: readonly unknown[] = [undefined, null, new URL(URL_SENT), 1];
  for (const url of others) {
    await assert.rejects(verifyPingback(url as string, URL_SIGNATURE, SECRET), {
      name: "TypeError",
      message: /not parsed/,
    });
  }
  await assert.rejects(verifyPingback("/p?id=0198", URL_SIGNATURE, SECRET), {
    name: "TypeError",
    message: /scheme and host/,
  });
});

test("a missing or malformed secret is a TypeError", async () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [[], /at least one/],
    ...[undefined, null, [SECRET, undefined]].map(
      (each) => [each, /environment variable/] as const,
    ),
    [Buffer.from(SECRET), /Uint8Array/],
    ...["", [SECRET, ""]].map((each) => [each, /empty/] as const),
    ...[`${SECRET}\n`, `${SECRET}\r\n`, [SECRET, ` ${SECRET}`]].map(
      (each) => [each, /white space/] as const,
    ),
    ["whsec_\ud83d", /Unicode/],
  ];
  for (const [secrets, message] of cases) {
    const isTold = { name: "TypeError", message };
    await assert.rejects(verifyPostback(BODY, SIGNATURE, secrets as string), isTold);
    await assert.rejects(verifyPingback(URL_SENT, null, secrets as string), isTold);
  }
});

test("an error contains no secret", async () => {
  for (const secrets of [`${SECRET} `, [SECRET, ""], `${SECRET}\ud83d`]) {
    const error: unknown = await verifyPostback(BODY, SIGNATURE, secrets).catch((each) => each);
    assert(error instanceof TypeError);
    assert(!error.message.includes(SECRET));
  }
});

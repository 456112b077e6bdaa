import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import fc from "fast-check";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import {
  type ReceivedMessage,
  checkSignature,
  signStandardWebhook,
  signWebhook,
} from "../../src/domain/webhook/signature.ts";
import { anyText } from "../helpers/any-text.ts";

/** HMAC by RFC 2104 from SHA-256 alone: the reference. */
function hmacSha256(key: Uint8Array, message: Uint8Array): Buffer {
  const block = Buffer.alloc(64);
  block.set(key.length > 64 ? createHash("sha256").update(key).digest() : key);
  const hash = (pad: number, data: Uint8Array): Buffer =>
    createHash("sha256")
      .update(block.map((byte) => byte ^ pad))
      .update(data)
      .digest();
  return hash(0x5c, hash(0x36, message));
}

interface Vector {
  readonly key: Buffer;
  readonly message: Buffer;
  readonly tag: string;
}

const VECTORS = new URL("../fixtures/hmac/hmac-sha256.vec", import.meta.url);

function readVectors(): readonly Vector[] {
  const text = readFileSync(VECTORS, "utf8");
  const blocks = [...text.matchAll(/^Key = (\w*)\nIn = (\w*)\nOut = (\w+)$/gm)];
  return blocks.map(([, key = "", message = "", tag = ""]) => ({
    key: Buffer.from(key, "hex"),
    message: Buffer.from(message, "hex"),
    tag: tag.toLowerCase(),
  }));
}

test("the reference agrees with the published vectors", () => {
  const vectors = readVectors();

  assert(vectors.length >= 7);
  for (const { key, message, tag } of vectors) {
    assert.equal(hmacSha256(key, message).toString("hex"), tag);
  }
});

test("X-Signature agrees with the published vectors that have text keys", () => {
  const textual = readVectors().filter(({ key }) => Buffer.from(key.toString()).equals(key));

  assert(textual.length >= 5);
  for (const { key, message, tag } of textual) {
    assert.equal(signWebhook(message, key.toString()), `sha256=${tag}`);
  }
});

test("X-Signature agrees with the example in GitHub's documentation", () => {
  assert.equal(
    signWebhook("Hello, World!", "It's a Secret to Everybody"),
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
  );
});

test("X-Signature signs the UTF-8 bytes of the text by the UTF-8 bytes of the entire secret", () => {
  const secret = fc.oneof(anyText(), fc.constant(newWebhookSecret()));
  fc.assert(
    fc.property(anyText(), secret, (message, key) => {
      const expected = hmacSha256(Buffer.from(key), Buffer.from(message)).toString("hex");

      assert.equal(signWebhook(message, key), `sha256=${expected}`);
      assert.equal(signWebhook(Buffer.from(message), key), `sha256=${expected}`);
    }),
  );
});

// The example in the tests of the Standard Webhooks libraries.
const EXAMPLE = {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestamp: 1614265330,
  body: `{"test": 2432232314}`,
};
const EXAMPLE_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const EXAMPLE_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

test("webhook-signature agrees with the example of Standard Webhooks", () => {
  assert.equal(signStandardWebhook(EXAMPLE, [EXAMPLE_SECRET]), EXAMPLE_SIGNATURE);
  const body = Buffer.from(EXAMPLE.body);
  assert.equal(signStandardWebhook({ ...EXAMPLE, body }, [EXAMPLE_SECRET]), EXAMPLE_SIGNATURE);
});

test("webhook-signature has one signature for each secret, in order, separated by a space", () => {
  const next = newWebhookSecret();

  const both = signStandardWebhook(EXAMPLE, [EXAMPLE_SECRET, next]);

  assert.equal(both, `${EXAMPLE_SIGNATURE} ${signStandardWebhook(EXAMPLE, [next])}`);
  assert.match(both, /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/);
});

test("webhook-signature signs id, time and body by the bytes after whsec_, also an empty body", () => {
  const id = fc.constantFrom("018e-postback", "018e-pingback");
  const timestamp = fc.integer({ min: 0, max: 4_102_444_800 });
  const body = fc.oneof(fc.constant(""), anyText());
  fc.assert(
    fc.property(id, timestamp, body, fc.uint8Array({ minLength: 1, maxLength: 80 }), (...given) => {
      const [messageId, time, text, key] = given;
      const message = Buffer.from(`${messageId}.${time}.${text}`);
      const expected = hmacSha256(key, message).toString("base64");

      const standard = { id: messageId, timestamp: time, body: text };
      const secret = `whsec_${Buffer.from(key).toString("base64")}`;
      assert.equal(signStandardWebhook(standard, [secret]), `v1,${expected}`);
    }),
  );
});

test("a new secret has 32 random bytes", () => {
  const secrets = Array.from({ length: 100 }, newWebhookSecret);

  assert.equal(new Set(secrets).size, 100);
  for (const secret of secrets) {
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.equal(Buffer.from(secret.slice(6), "base64").length, 32);
  }
});

test("thousands of secrets sign in turn without being confused", () => {
  const secrets = Array.from({ length: 2500 }, (_, index) => {
    return `whsec_${Buffer.from(`secret number ${index}`).toString("base64")}`;
  });

  for (const secret of [...secrets, ...secrets]) {
    const shown = hmacSha256(Buffer.from(secret), Buffer.from("body")).toString("hex");
    const key = Buffer.from(secret.slice("whsec_".length), "base64");
    const decoded = hmacSha256(key, Buffer.from("id.1.body")).toString("base64");

    const standard = signStandardWebhook({ id: "id", timestamp: 1, body: "body" }, [secret]);

    assert.equal(signWebhook("body", secret), `sha256=${shown}`);
    assert.equal(standard, `v1,${decoded}`);
  }
});

const SECRET = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;
const BODY = '{"status_code":20000,"tasks":[{"result":1.10}]}';
const SIGNATURE = signWebhook(BODY, SECRET);

function bodyOf(text: string | Uint8Array): ReceivedMessage {
  return { kind: "body", bytes: Buffer.from(text) };
}

interface Given {
  readonly signature?: string;
  readonly secret?: string;
  readonly message?: ReceivedMessage;
}

/** The faults, by default with a valid signature of BODY; empty if the signature is valid. */
function reasonsFor({ signature = SIGNATURE, secret = SECRET, message }: Given): readonly string[] {
  const verdict = checkSignature({ signature, secret, message: message ?? bodyOf(BODY) });
  if (verdict.kind === "valid") return [];
  assert.ok(verdict.reasons.length > 0, "an invalid signature without a reason");
  return verdict.reasons;
}

test("a signature is valid, and with one wrong digit it is not", () => {
  const text = anyText();
  fc.assert(
    fc.property(fc.uint8Array(), text, fc.nat(63), (bytes, secret, at) => {
      const signature = signWebhook(bytes, secret);
      const message = bodyOf(bytes);
      const digit = signature.at(7 + at) === "0" ? "1" : "0";
      const wrong = signature.slice(0, 7 + at) + digit + signature.slice(8 + at);

      assert.equal(checkSignature({ signature, secret, message }).kind, "valid");
      assert.equal(checkSignature({ signature: wrong, secret, message }).kind, "invalid");
    }),
  );
});

test("any text is accepted as signature, secret and message without an exception", () => {
  const text = anyText(200);
  fc.assert(
    fc.property(text, text, text, (signature, secret, url) => {
      assert.ok(reasonsFor({ signature, secret, message: { kind: "url", url } }).length > 0);
      assert.ok(reasonsFor({ signature, secret, message: bodyOf(url) }).length > 0);
    }),
  );
});

test("bytes that are not UTF-8 are compared unchanged", () => {
  const bytes = Uint8Array.of(0xff, 0x00, 0xe9);
  const signature = signWebhook(bytes, SECRET);

  assert.deepEqual(reasonsFor({ signature, message: bodyOf(bytes) }), []);
  const longer = bodyOf(Uint8Array.of(...bytes, 0x0a));
  assert.match(reasonsFor({ signature, message: longer }).join(), /^[^,]*line break at its end/);
});

test("an unexplained mismatch is named without the secret and the message", () => {
  const secret = `whsec_${"hunter2".repeat(6)}`;
  const reasons = reasonsFor({ secret, message: bodyOf("private") });

  assert.match(reasons.join("\n"), /of another message or by another secret/);
  assert.doesNotMatch(reasons.join("\n"), /hunter2|private/);
});

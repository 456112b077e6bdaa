import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

import fc from "fast-check";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { signStandardWebhook, signWebhook } from "../../src/domain/webhook/signature.ts";
import { anyText } from "../helpers/any-text.ts";

/** HMAC as RFC 2104 writes it, from SHA-256 alone: the judge of the code under test. */
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

interface MacFile {
  readonly testGroups: readonly {
    readonly tagSize: number;
    readonly tests: readonly {
      readonly key: string;
      readonly msg: string;
      readonly tag: string;
      readonly result: string;
    }[];
  }[];
}

test("the judge computes what the published vectors say", () => {
  const vectors = readVectors();

  assert(vectors.length >= 7);
  for (const { key, message, tag } of vectors) {
    assert.equal(hmacSha256(key, message).toString("hex"), tag);
  }
});

test("the judge agrees with Wycheproof", (t) => {
  const url = new URL("../../../shared/corpora/wycheproof/hmac_sha256_test.json", import.meta.url);
  if (!existsSync(url)) return t.skip("Wycheproof is not at hand");
  // The file's own schema, mac_test_schema_v1.json.
  const { testGroups } = JSON.parse(readFileSync(url, "utf8")) as MacFile;
  let count = 0;
  for (const { tagSize, tests } of testGroups) {
    for (const { key, msg, tag, result } of tests) {
      const mac = hmacSha256(Buffer.from(key, "hex"), Buffer.from(msg, "hex"));
      const isValid = mac.toString("hex").slice(0, tagSize / 4) === tag;
      assert.equal(isValid, result === "valid");
      count++;
    }
  }
  assert(count > 100);
});

test("signs as the published vectors say whose keys are text", () => {
  const textual = readVectors().filter(({ key }) => Buffer.from(key.toString()).equals(key));

  assert(textual.length >= 5);
  for (const { key, message, tag } of textual) {
    assert.equal(signWebhook(message, key.toString()), `sha256=${tag}`);
  }
});

test("signs as GitHub's documentation of the same header shows it", () => {
  assert.equal(
    signWebhook("Hello, World!", "It's a Secret to Everybody"),
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
  );
});

test("signs text as its UTF-8 bytes, with the UTF-8 bytes of the whole secret as the key", () => {
  const secret = fc.oneof(anyText(), fc.constant(newWebhookSecret()));
  fc.assert(
    fc.property(anyText(), secret, (message, key) => {
      const expected = hmacSha256(Buffer.from(key), Buffer.from(message)).toString("hex");

      assert.equal(signWebhook(message, key), `sha256=${expected}`);
      assert.equal(signWebhook(Buffer.from(message), key), `sha256=${expected}`);
    }),
  );
});

// The example that the Standard Webhooks libraries verify themselves with.
const EXAMPLE = {
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestamp: 1614265330,
  body: `{"test": 2432232314}`,
};
const EXAMPLE_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const EXAMPLE_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

test("signs as the example of Standard Webhooks", () => {
  assert.equal(signStandardWebhook(EXAMPLE, [EXAMPLE_SECRET]), EXAMPLE_SIGNATURE);
  const body = Buffer.from(EXAMPLE.body);
  assert.equal(signStandardWebhook({ ...EXAMPLE, body }, [EXAMPLE_SECRET]), EXAMPLE_SIGNATURE);
});

test("gives one signature for each secret, in their order, separated by a space", () => {
  const next = newWebhookSecret();

  const both = signStandardWebhook(EXAMPLE, [EXAMPLE_SECRET, next]);

  assert.equal(both, `${EXAMPLE_SIGNATURE} ${signStandardWebhook(EXAMPLE, [next])}`);
  assert.match(both, /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/);
});

test("signs id, time and body with the bytes behind whsec_, a pingback's empty body too", () => {
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

test("makes secrets of 32 random bytes", () => {
  const secrets = Array.from({ length: 100 }, newWebhookSecret);

  assert.equal(new Set(secrets).size, 100);
  for (const secret of secrets) {
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.equal(Buffer.from(secret.slice(6), "base64").length, 32);
  }
});

test("however many secrets sign in turn, each signs as its own", () => {
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

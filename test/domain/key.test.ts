import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { crc32 } from "node:zlib";

import fc from "fast-check";

import { KEY_LABEL, KEY_PREFIX } from "../../src/domain/account/account.ts";
import {
  ACTIVE_KEYS_MAX,
  hashKey,
  isWellFormedKey,
  newKey,
  newKeyId,
} from "../../src/domain/account/key.ts";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// Made with Python's zlib.crc32 and its own base62.
const CHECKSUMS = [
  ["0000000000000000000000000000000000", "0iqUEf"],
  ["zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "2Mm4wV"],
  ["0123456789ABCDEFGHIJKLMNOPQRSTUVWX", "0TeJoD"],
  ["STUVWXYZabcdefghijklmnopqrstuvwxyz", "2oy74V"],
  ["pDq8N1aZ0sVb7Kx3Wm5TfYhJ9cRgLuE2oX", "1USrLi"],
  ["0000000000000000000000000000000165", "00cyHz"],
] as const;

/** The Base62 CRC-32 of 34 characters, computed independently. */
function checksum(secret: string): string {
  let rest = BigInt(crc32(secret));
  const digits: string[] = [];
  for (let i = 0; i < 6; i++) {
    digits.unshift(ALPHABET[Number(rest % 62n)] ?? "");
    rest /= 62n;
  }
  return digits.join("");
}

test("a key with the checksum of another implementation is well-formed", () => {
  for (const [secret, sum] of CHECKSUMS) {
    assert.equal(isWellFormedKey(`${KEY_PREFIX}${secret}${sum}`), true, secret);
    assert.equal(checksum(secret), sum);
  }
});

test("new keys have the documented form, a valid checksum and no duplicates", () => {
  const minted = Array.from({ length: 1000 }, newKey);

  assert.equal(new Set(minted.map(({ key }) => key)).size, 1000);
  for (const { key, hash, lastFour } of minted) {
    assert.match(key, /^pbd_live_[0-9A-Za-z]{40}$/);
    assert.equal(key.slice(-6), checksum(key.slice(9, 43)));
    assert.equal(isWellFormedKey(key), true);
    assert.equal(hash, createHash("sha256").update(key).digest("hex"));
    assert.equal(lastFour, key.slice(-4));
  }
});

test("the characters of a key are evenly distributed", () => {
  const counts = new Map<string, number>();
  for (let i = 0; i < 3000; i++) {
    for (const char of newKey().key.slice(9, 43)) counts.set(char, (counts.get(char) ?? 0) + 1);
  }

  // 102,000 characters: 1,645 of each with a deviation of 40. A byte modulo 62 would add 347 to eight
  // characters.
  assert.deepEqual([...counts.keys()].sort(), [...ALPHABET].sort());
  for (const [char, count] of counts) assert(Math.abs(count - 1645) < 240, `${char}: ${count}`);
});

test("a key with one wrong or two swapped characters is not well-formed", () => {
  const place = fc.integer({ min: 0, max: 39 });
  fc.assert(
    fc.property(place, fc.constantFrom(...ALPHABET), (at, wrong) => {
      const { key } = newKey();
      const index = KEY_PREFIX.length + at;
      fc.pre(key[index] !== wrong);

      assert.equal(isWellFormedKey(key.slice(0, index) + wrong + key.slice(index + 1)), false);
      if (at > 32 || key[index] === key[index + 1]) return;
      const swapped = `${key.slice(0, index)}${key[index + 1]}${key[index]}${key.slice(index + 2)}`;
      assert.equal(isWellFormedKey(swapped), false);
    }),
    { numRuns: 500 },
  );
});

test("text of another form is not a key", () => {
  const { key } = newKey();
  const secret = key.slice(KEY_PREFIX.length);
  const others = [
    ...["", KEY_PREFIX, secret, `PBD_LIVE_${secret}`, `pbd_test_${secret}`, `pbd_work_${secret}`],
    ...[` ${key}`, `${key} `, `${key}\n`, key.slice(0, -1), `${key}0`, key.replace("_", "-")],
    ...[`${key.slice(0, 20)}-${key.slice(21)}`, `${key.slice(0, 20)}\u0430${key.slice(21)}`],
  ];

  for (const other of others) assert.equal(isWellFormedKey(other), false, other);
});

test("a key is hashed entirely with SHA-256", () => {
  const hash = "467e424319f0b718bf27f51daeb88eef2e9abf3e3495951891c23d06dbf77693";

  assert.equal(hashKey("pbd_live_test"), hash);
});

const isKeyLabel = (text: string): boolean => KEY_LABEL.parse(text).kind === "value";

test("a label with a control character or a lone surrogate is refused", () => {
  const controls = Array.from({ length: 0xa0 }, (_, code) => code).filter(
    (code) => code < 0x20 || code >= 0x7f,
  );
  assert.equal(controls.length, 65);
  for (const code of [...controls, 0xd800, 0xdbff, 0xdc00, 0xdfff]) {
    const wrong = String.fromCharCode(code);
    for (const label of [wrong, `a${wrong}`, `${wrong}a`, `a${wrong}b`, `😀${wrong}`]) {
      assert.equal(isKeyLabel(label), false, JSON.stringify(label));
    }
  }
});

test("a label has at most 100 code points", () => {
  for (const char of ["a", "é", "\u200d", "😀"]) {
    assert.equal(isKeyLabel(char.repeat(100)), true, char);
    assert.equal(isKeyLabel(char.repeat(101)), false, char);
  }
  assert.equal(isKeyLabel("😀".repeat(5_000_000)), false);
});

test("a label is any other text, also empty", () => {
  const labels = ["", " ", "ci", 'build "42" <b>', "__proto__", "ключ", "\ufffd", "~", "\u00a0"];
  for (const label of labels) assert.equal(isKeyLabel(label), true, label);
});

test("a key id has the hex digits of a UUIDv7, and an account has at most 20 active keys", () => {
  const keyId = newKeyId("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");

  assert.equal(keyId, "key_017f22e279b07cc398c4dc0c0c07398f");
  assert.equal(ACTIVE_KEYS_MAX, 20);
});

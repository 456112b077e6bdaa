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
import { IdGenerator, idTimeMs, isId } from "../../src/domain/id.ts";

const NOW = Date.parse("2030-01-31T09:00:00.123Z");

function mint(times: readonly number[]): readonly string[] {
  const ids = new IdGenerator();
  return times.map((time) => ids.next(time));
}

function assertAscending(ids: readonly string[]): void {
  for (const [i, id] of ids.entries()) {
    const before = ids[i - 1];
    assert(before === undefined || before < id, `${before} is not before ${id}`);
  }
}

test("an id has the layout of RFC 9562", () => {
  for (const id of mint(Array.from({ length: 1000 }, (_, i) => NOW + i))) {
    const bits = BigInt(`0x${id.replaceAll("-", "")}`);
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    assert.equal((bits >> 76n) & 0xfn, 7n);
    assert.equal((bits >> 62n) & 0b11n, 0b10n);
    assert.equal(Number(bits >> 80n), idTimeMs(id));
    assert(isId(id));
  }
});

test("an id contains its time", () => {
  for (const time of [0, 1, NOW, Date.parse("9999-12-31T23:59:59.999Z"), 2 ** 48 - 1]) {
    assert.deepEqual(mint([time]).map(idTimeMs), [time]);
  }
  // The example of RFC 9562.
  const time = idTimeMs("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  assert.equal(new Date(time).toISOString(), "2022-02-22T19:22:22.000Z");
});

test("ids of one millisecond are ascending, and an exhausted counter takes the next milliseconds", () => {
  const ids = mint(Array.from({ length: 20_000 }, () => NOW));

  assertAscending(ids);
  assert.deepEqual([...new Set(ids.slice(0, 2000).map(idTimeMs))], [NOW]);
  const last = ids.at(-1);
  assert(last !== undefined);
  // A counter has 4,096 values and starts in their lower half.
  assert(idTimeMs(last) >= NOW + 4 && idTimeMs(last) <= NOW + 10, last);
});

test("ids continue after the last one while the clock is behind it", () => {
  const [before, back, later] = mint([NOW, NOW - 3_600_000, NOW + 1]);
  assert(before !== undefined && back !== undefined && later !== undefined);

  assert(before < back && back < later);
  assert.equal(idTimeMs(back), NOW);
  assert.equal(idTimeMs(later), NOW + 1);
});

test("ids are ascending for any clock", () => {
  const step = fc.oneof(fc.constant(0), fc.integer({ min: -10_000, max: 10_000 }));
  fc.assert(
    fc.property(fc.array(step, { minLength: 2, maxLength: 500 }), (steps) => {
      let time = NOW;
      const times = steps.map((ms) => (time += ms));
      const ids = mint(times);

      assertAscending(ids);
      assert(ids.every(isId));
      const latest = Math.max(...times);
      assert(ids.every((id) => idTimeMs(id) <= latest));
    }),
    { numRuns: 50 },
  );
});

test("an id cannot be guessed from other ids", () => {
  const ids = Array.from({ length: 1000 }, () => mint([NOW])[0] ?? "");

  assert.equal(new Set(ids.map((id) => id.slice(19))).size, 1000);
  assert(new Set(ids.map((id) => id.slice(15, 18))).size > 500, "the counter starts at random");
});

test("only a lower-case UUIDv7 is an id", () => {
  const id = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
  const others = [
    ["", id.toUpperCase(), id.replaceAll("-", ""), `{${id}}`, ` ${id}`, `${id}\n`, `${id}0`],
    ["017f22e2-79b0-4cc3-98c4-dc0c0c07398f", "017f22e2-79b0-7cc3-18c4-dc0c0c07398f"],
    ["017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398g"],
    ["00000000-0000-0000-0000-000000000000", "017f22e279b0-7cc3-98c4-dc0c0c07398f-"],
  ].flat();

  assert.equal(isId(id), true);
  for (const other of others) assert.equal(isId(other), false, other);
});

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

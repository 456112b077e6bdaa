import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

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
});

test("the example of RFC 9562 has its time", () => {
  const time = idTimeMs("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");

  assert.equal(new Date(time).toISOString(), "2022-02-22T19:22:22.000Z");
});

test("ids of one millisecond are ascending", () => {
  const ids = mint(Array.from({ length: 2000 }, () => NOW));

  assertAscending(ids);
  assert.deepEqual([...new Set(ids.map(idTimeMs))], [NOW]);
});

test("an exhausted counter takes the next milliseconds", () => {
  const ids = mint(Array.from({ length: 20_000 }, () => NOW));

  assertAscending(ids);
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

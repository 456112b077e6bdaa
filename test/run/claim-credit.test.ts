import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { ClaimCredit, NOT_CLAIMED, type Claim } from "../../src/run/claim-credit.ts";

test("a type has room once it is woken: its concurrency, without what is held and what claims may bring", () => {
  const credit = new ClaimCredit(10);
  assert.deepEqual([credit.room(0), credit.isLeft, credit.isClaiming], [0, false, false]);
  for (let i = 0; i < 9; i++) credit.wake();
  assert.equal(credit.room(3), 7);
  credit.begin(4);
  assert.deepEqual([credit.room(3), credit.room(20), credit.isClaiming], [3, 0, true]);
});

test("a claim that comes back full allows for twice as many, and one that leaves none ends it", () => {
  const credit = new ClaimCredit(100);
  credit.wake();
  const first = credit.begin(1);
  assert.equal(credit.room(0), 0);
  credit.end(first, { found: 1, isCutShort: false });
  const second = [credit.begin(1), credit.begin(1)];
  assert.equal(credit.room(1), 0);
  for (const claim of second) credit.end(claim, { found: 0, isCutShort: false });
  assert.deepEqual([credit.room(1), credit.isLeft, credit.isClaiming], [0, false, false]);
});

test("a claim that was cut short, or could not be made, leaves the question open", () => {
  for (const finding of [{ found: 1, isCutShort: true }, NOT_CLAIMED]) {
    const credit = new ClaimCredit(100);
    credit.wake();
    credit.end(credit.begin(50), finding);
    assert.equal(credit.room(0), 100);
  }
});

test("a wake that comes while a claim is under way that leaves none is not lost", () => {
  const credit = new ClaimCredit(100);
  credit.wake();
  const claim = credit.begin(100);
  credit.wake();
  credit.end(claim, { found: 0, isCutShort: false });
  assert.equal(credit.room(0), 100);
});

test("however often a type is woken, no more than 64 claims of one task are under way", () => {
  const credit = new ClaimCredit(1000);
  for (let i = 0; i < 1000; i++) credit.wake();
  let claims = 0;
  while (credit.room(0) > 0) {
    credit.begin(1);
    claims++;
  }
  assert.equal(claims, 64);
});

test("whatever comes when, nothing that is queued is left for good, and the concurrency is kept", () => {
  const step = fc.record({
    kind: fc.constantFrom("post", "claim", "answer", "end"),
    count: fc.integer({ min: 1, max: 12 }),
    which: fc.nat(20),
  });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step), (concurrency, steps) => {
      const queue = new Queue(concurrency);
      for (const each of steps) queue.do(each);
      queue.finish();
      assert.deepEqual([queue.queued, queue.credit.isLeft], [0, false]);
    }),
  );
});

/** A type's queue, whose claims are answered in any order. */
class Queue {
  readonly credit: ClaimCredit;
  queued = 0;
  #held = 0;
  readonly #concurrency: number;
  /** With what they bring: that is decided in the order they were begun. */
  readonly #claims: { readonly claim: Claim; readonly found: number }[] = [];

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
    this.credit = new ClaimCredit(concurrency);
  }

  do({ kind, count, which }: { readonly kind: string; readonly count: number; which: number }) {
    if (kind === "post") this.#post(count);
    else if (kind === "claim") this.#claim(count);
    else if (kind === "answer") this.#answer(which);
    else this.#held = Math.max(0, this.#held - count);
  }

  /** Claims and ends until nothing can be claimed any more. */
  finish(): void {
    do {
      while (this.#claims.length > 0) this.#answer(0);
      this.#held = 0;
      this.#claim(this.#concurrency);
    } while (this.#claims.length > 0);
  }

  #post(count: number): void {
    this.queued += count;
    this.credit.wake();
  }

  #claim(count: number): void {
    const max = Math.min(count, this.credit.room(this.#held));
    if (max === 0) return;
    const found = Math.min(max, this.queued);
    this.queued -= found;
    this.#claims.push({ claim: this.credit.begin(max), found });
  }

  #answer(which: number): void {
    const [answered] = this.#claims.splice(which % Math.max(1, this.#claims.length), 1);
    if (answered === undefined) return;
    this.credit.end(answered.claim, { found: answered.found, isCutShort: false });
    this.#held += answered.found;
    assert.ok(this.#held <= this.#concurrency);
  }
}

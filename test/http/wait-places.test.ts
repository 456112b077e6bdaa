import assert from "node:assert/strict";
import { test } from "node:test";

import { WaitPlaces } from "../../src/http/admission/room.ts";

/** Takes places for a holder until it is refused; returns what frees each of them. */
function takeAll(places: WaitPlaces, holder: string, address = holder): (() => void)[] {
  const taken: (() => void)[] = [];
  while (places.refusal({ holder, address }) === null) taken.push(places.take({ holder, address }));
  const refusal = { code: 42900, headers: { "retry-after": "5" } };
  assert.throws(() => places.take({ holder, address }), refusal);
  return taken;
}

test("half of the connections may wait, and a holder may have as many as it leaves free", () => {
  const places = new WaitPlaces(4096);
  // Each holder has many addresses.
  const takeSpread = (holder: string): (() => void)[] =>
    Array.from({ length: 10 }, (_, at) => takeAll(places, holder, `${holder} ${at}`)).flat();

  const taken = [1024, 512, 256].flatMap((expected, i) => {
    const some = takeSpread(`holder ${i}`);
    assert.equal(some.length, expected);
    return some;
  });
  for (const free of taken) free();
  assert.equal(places.taken, 0);
  assert.equal(takeSpread("holder 2").length, 1024);
});

test("a holder may have as many of its address's places as it leaves free", () => {
  const places = new WaitPlaces(4096);

  const taken = takeAll(places, "a", "address");
  assert.equal(taken.length, 512);
  assert.equal(takeAll(places, "b", "address").length, 256);
  assert.equal(places.refusal({ holder: "a", address: "another" }), null);
  for (const free of taken) free();
  assert.equal(takeAll(places, "b", "address").length, 256);
});

test("of one connection one may wait, and a place is freed once", () => {
  const places = new WaitPlaces(1);
  const [free, ...others] = takeAll(places, "a");
  assert.equal(others.length, 0);
  free?.();
  free?.();
  assert.equal(places.taken, 0);
});

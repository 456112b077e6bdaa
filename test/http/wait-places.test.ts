import assert from "node:assert/strict";
import { test } from "node:test";

import { WaitPlaces } from "../../src/http/admission/room.ts";

/** Takes places for a holder until it gets no more; returns how many. */
function takeAll(places: WaitPlaces, holder: string, address = holder): (() => void)[] {
  const taken: (() => void)[] = [];
  while (places.refusal({ holder, address }) === null) taken.push(places.take({ holder, address }));
  assert.throws(() => places.take({ holder, address }), {
    code: 42900,
    headers: { "retry-after": "5" },
  });
  return taken;
}

test("half of the connections may wait, and a holder may have no more than it leaves free of them", () => {
  const places = new WaitPlaces(4096);
  // Each holder comes from many addresses.
  const takeSpread = (holder: string): (() => void)[] =>
    Array.from({ length: 10 }, (_, at) => takeAll(places, holder, `${holder} ${at}`)).flat();

  const taken = takeSpread("a");
  assert.equal(taken.length, 1024);
  taken.push(...takeSpread("b"));
  assert.equal(taken.length, 1024 + 512);
  taken.push(...takeSpread("c"));
  assert.equal(taken.length, 1024 + 512 + 256);
  for (const letGo of taken) letGo();
  assert.equal(places.taken, 0);
  assert.equal(takeSpread("c").length, 1024);
});

test("a holder may have no more than it leaves free of the connections of its address", () => {
  const places = new WaitPlaces(4096);

  const taken = takeAll(places, "a", "address");
  assert.equal(taken.length, 512);
  assert.equal(takeAll(places, "b", "address").length, 256);
  assert.equal(places.refusal({ holder: "a", address: "another" }), null);
  for (const letGo of taken) letGo();
  assert.equal(takeAll(places, "b", "address").length, 256);
});

test("with few connections one may wait all the same", () => {
  const places = new WaitPlaces(1);
  const [letGo, ...others] = takeAll(places, "a");
  assert.equal(others.length, 0);
  letGo?.();
  letGo?.();
  assert.equal(places.taken, 0);
});

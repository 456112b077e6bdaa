import assert from "node:assert/strict";
import { test } from "node:test";

import { StatusError } from "../../src/domain/status.ts";
import { WaitPlaces } from "../../src/http/wait-places.ts";

/** What it is refused with. */
function refusalOf(places: WaitPlaces, holder: string): string {
  try {
    places.take(holder)();
  } catch (error) {
    assert.ok(error instanceof StatusError);
    assert.equal(error.code, 42900);
    assert.equal(error.headers["retry-after"], "5");
    return error.details[0]?.detail ?? "";
  }
  return "";
}

test("one may have a quarter of the connections wait, and all together half", () => {
  const places = new WaitPlaces(4096);
  const taken = Array.from({ length: 1024 }, () => places.take("a"));
  assert.match(refusalOf(places, "a"), /1024 requests wait at once, a quarter of limits\.connec/);
  for (let i = 0; i < 1024; i++) taken.push(places.take("b"));
  assert.match(refusalOf(places, "c"), /^2048 requests wait, .* half of limits\.connections/);
  for (const letGo of taken) letGo();
  assert.equal(places.taken, 0);
  assert.equal(refusalOf(places, "a"), "");
});

test("with few connections one may wait all the same", () => {
  const places = new WaitPlaces(1);
  const letGo = places.take("a");
  assert.notEqual(refusalOf(places, "a"), "");
  letGo();
  letGo();
  assert.equal(places.taken, 0);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { ChunkShares, TURN_CHUNKS_MAX, UNCOUNTED_CHUNKS } from "../../src/domain/json/chunks.ts";

const SMALL = new Uint8Array(1);
const LARGE = new Uint8Array(512);

function sharesInTurns() {
  const callbacks: (() => void)[] = [];
  const shares = new ChunkShares((callback) => callbacks.push(callback));
  const nextTurn = (): void => callbacks.splice(0).forEach((callback) => callback());
  return { shares, nextTurn };
}

/** The small chunks accepted until the first refusal. */
function taken(isTaken: (chunk: Uint8Array) => boolean): number {
  let count = 0;
  while (isTaken(SMALL)) count++;
  return count;
}

test("one turn of the event loop accepts a limited number of small chunks of a sender, over all messages", () => {
  const { shares, nextTurn } = sharesInTurns();

  assert.equal(taken(shares.open("a")), UNCOUNTED_CHUNKS + TURN_CHUNKS_MAX);
  const another = shares.open("a");
  assert.equal(taken(another), UNCOUNTED_CHUNKS);
  assert.equal(another(LARGE), true);
  nextTurn();
  assert.equal(taken(another), TURN_CHUNKS_MAX);
});

test("a later sender has an even share", () => {
  const { shares } = sharesInTurns();
  taken(shares.open("a"));

  assert.equal(taken(shares.open("b")), UNCOUNTED_CHUNKS + TURN_CHUNKS_MAX / 2);
  assert.equal(taken(shares.open("c")), UNCOUNTED_CHUNKS + Math.floor(TURN_CHUNKS_MAX / 3));
});

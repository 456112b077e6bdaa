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

/** How many small chunks are taken, one after the other. */
function taken(isTaken: (chunk: Uint8Array) => boolean): number {
  let count = 0;
  while (isTaken(SMALL)) count++;
  return count;
}

test("in one turn of the event loop so many small chunks of one sender are taken, over all of its messages", () => {
  const { shares, nextTurn } = sharesInTurns();

  assert.equal(taken(shares.open("a")), UNCOUNTED_CHUNKS + TURN_CHUNKS_MAX);
  const another = shares.open("a");
  assert.equal(taken(another), UNCOUNTED_CHUNKS);
  assert.equal(another(LARGE), true);
  nextTurn();
  assert.equal(taken(another), TURN_CHUNKS_MAX);
});

test("who comes when another has used up what there is has an even share all the same", () => {
  const { shares } = sharesInTurns();
  taken(shares.open("a"));

  assert.equal(taken(shares.open("b")), UNCOUNTED_CHUNKS + TURN_CHUNKS_MAX / 2);
  assert.equal(taken(shares.open("c")), UNCOUNTED_CHUNKS + Math.floor(TURN_CHUNKS_MAX / 3));
});

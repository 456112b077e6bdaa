import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { test } from "node:test";

import {
  ChunkShares,
  dropRest,
  TURN_CHUNKS_MAX,
  UNCOUNTED_CHUNKS,
} from "../../src/domain/json/chunks.ts";

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

test("a parser that drops the rest of a body is as it was when its connection is closed", () => {
  const parserOnBody = (): void => {};
  const parser: Record<number, unknown> = { 3: parserOnBody };
  const socket = Object.assign(new EventEmitter(), { parser });

  dropRest(socket);
  dropRest(socket);
  assert.equal(parser[3], null);
  socket.emit("close");
  assert.equal(parser[3], parserOnBody);
});

test("a parser that Node has built in another way is left alone", () => {
  const other = (): void => {};
  for (const parser of [null, {}, { 3: other }, { 3: "parserOnBody" }]) {
    const before = { ...parser };
    dropRest(Object.assign(new EventEmitter(), { parser }));
    assert.deepEqual({ ...parser }, before);
  }
  dropRest(new EventEmitter());
});

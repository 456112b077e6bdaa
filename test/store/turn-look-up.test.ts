import assert from "node:assert/strict";
import { test } from "node:test";

import { turnLookUp } from "../../src/store/postgres/turn-reads.ts";
import { pluck } from "../helpers/store.ts";

test("look-ups of one turn share a statement with each key once", async () => {
  const asked: (readonly string[])[] = [];
  const lookUp = turnLookUp(async (keys) => {
    asked.push(keys);
    return keys.filter((key) => key !== "none").map((key) => ({ key }));
  });

  // Requests of one turn come in by themselves, each with its own microtasks.
  const found = ["a", "b", "a", "none"].map((key) => lookUp(key));
  await Promise.resolve();
  found.push(lookUp("b"));

  const expected = [{ key: "a" }, { key: "b" }, { key: "a" }, undefined, { key: "b" }];
  assert.deepEqual(await Promise.all(found), expected);
  assert.deepEqual(asked, [["a", "b", "none"]]);
});

test("a look-up of a later turn has its own statement", async () => {
  const answers: ((value: number) => void)[] = [];
  const lookUp = turnLookUp(async ([key = ""]) => {
    const value = await new Promise<number>((resolve) => answers.push(resolve));
    return [{ key, value }];
  });

  const first = lookUp("a");
  await new Promise(setImmediate);
  const second = lookUp("a");
  await new Promise(setImmediate);
  answers.forEach((answer, i) => answer(i));

  assert.deepEqual(await Promise.all([first, second]), [
    { key: "a", value: 0 },
    { key: "a", value: 1 },
  ]);
});

test("a statement that fails rejects the look-ups of its turn, and none of the next", async () => {
  let isLost = true;
  const lookUp = turnLookUp(async (keys) => {
    if (isLost) throw new Error("lost");
    return keys.map((key) => ({ key }));
  });
  const outcomes = await Promise.allSettled([lookUp("a"), lookUp("b")]);
  isLost = false;
  assert.deepEqual(pluck(outcomes, "status"), ["rejected", "rejected"]);
  assert.deepEqual(await lookUp("a"), { key: "a" });
});

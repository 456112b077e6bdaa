import assert from "node:assert/strict";
import { test } from "node:test";

import { AccountTurns } from "../../src/http/admission/turns.ts";

/** Work that ends when the test says so. */
function heldWork() {
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<string>>();
  return {
    begun,
    work: (name: string) => () => {
      begun.push(name);
      const end = Promise.withResolvers<string>();
      ends.set(name, end);
      return end.promise;
    },
    end: (name: string) => ends.get(name)?.resolve(name),
    fail: (name: string) => ends.get(name)?.reject(new Error(name)),
  };
}

test("the work of an account runs in sequence, and other accounts do not wait for it", async () => {
  const turns = new AccountTurns();
  const { begun, work, end } = heldWork();

  const first = turns.take(1, work("first"));
  const second = turns.take(1, work("second"));
  const other = turns.take(2, work("other"));
  await Promise.resolve();
  end("other");
  assert.equal(await other, "other");
  assert.deepEqual(begun, ["first", "other"]);

  end("first");
  assert.equal(await first, "first");
  await Promise.resolve();
  end("second");
  assert.equal(await second, "second");
});

test("failed work does not block the next work of its account", async () => {
  const turns = new AccountTurns();
  const { work, fail, end } = heldWork();

  const first = turns.take(1, work("first"));
  const second = turns.take(1, work("second"));
  await Promise.resolve();
  fail("first");
  await assert.rejects(first, /first/);
  await Promise.resolve();
  end("second");

  assert.equal(await second, "second");
});

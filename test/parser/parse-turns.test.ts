import assert from "node:assert/strict";
import { test } from "node:test";

import { StatusError } from "../../src/domain/status.ts";
import { ParseTurns } from "../../src/parser/parser.ts";

const MIB = 1024 ** 2;

/** Turns in which each piece of work is ended by the test, in the order in which they began. */
function heldTurns() {
  const turns = new ParseTurns();
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  let tell: (() => void) | null = null;
  return {
    turns,
    begun,
    /** Promises the name when it is done. */
    take(name: string, { bytes = 1, isPatient = false } = {}): Promise<string> {
      const owner = name.slice(0, 1);
      return turns.take({ owner, bytes, ...(isPatient && { isPatient }) }, () => {
        begun.push(name);
        tell?.();
        return new Promise((resolve) => ends.push(() => resolve(name)));
      });
    },
    /** Ends what is under way; settles when something else has begun. */
    async next(): Promise<void> {
      const begins = new Promise<void>((resolve) => (tell = resolve));
      ends.shift()?.();
      await begins;
    },
    end: () => ends.shift()?.(),
  };
}

function refusedWith(code: number, detail: RegExp) {
  return (error: unknown): boolean => {
    assert(error instanceof StatusError);
    assert.equal(error.code, code);
    assert.match(error.details[0]?.detail ?? "", detail);
    assert.equal(error.headers["retry-after"], "1");
    return true;
  };
}

test("one body is parsed at a time, the owners in turn", async () => {
  const { take, begun, next } = heldTurns();
  const names = ["a1", "a2", "a3", "b1", "c1", "b2"];
  for (const name of names) void take(name);
  assert.deepEqual(begun, ["a1"]);
  for (let left = names.length - 1; left > 0; left--) await next();
  assert.deepEqual(begun, ["a1", "a2", "b1", "c1", "a3", "b2"]);
});

test("a failed parse passes its turn on", async () => {
  const turns = new ParseTurns();
  const by = { owner: "a", bytes: 1 };
  const failed = turns.take(by, () => Promise.reject(new Error("no")));
  const after = turns.take(by, async () => "done");
  await assert.rejects(failed, /no/);
  assert.equal(await after, "done");
  assert.equal(await turns.take(by, async () => "again"), "again");
});

test("32 MiB of one owner may wait", async () => {
  const { take, next, end } = heldTurns();
  const first = take("a0", { bytes: 1000 * MIB });
  const one = take("a1", { bytes: 30 * MIB });
  const two = take("a2", { bytes: 2 * MIB });
  await assert.rejects(take("a3"), refusedWith(42900, /^At most 33554432 bytes .* of yours may/));
  // Another is not in the way of it.
  const other = take("b1", { bytes: 30 * MIB });
  await next();
  await first;
  const three = take("a3", { bytes: 30 * MIB });
  for (let left = 3; left > 0; left--) await next();
  end();
  assert.deepEqual(await Promise.all([one, two, three, other]), ["a1", "a2", "a3", "b1"]);
});

test("128 MiB of all owners may wait, and the first body of an owner is never refused", async () => {
  const { take, begun, next } = heldTurns();
  for (const owner of ["x", "a", "b", "c", "d"]) void take(`${owner}1`, { bytes: 31 * MIB });
  // 4 times 31, and 4 more.
  void take("a2", { bytes: MIB });
  void take("b2", { bytes: MIB });
  void take("c2", { bytes: MIB });
  void take("d2", { bytes: MIB });
  void take("x2");
  await assert.rejects(
    take("x3"),
    refusedWith(50300, /^At most 134217728 bytes of large bodies may/),
  );
  void take("p1", { bytes: 100 * MIB, isPatient: true });
  void take("p2", { bytes: 100 * MIB, isPatient: true });
  assert.deepEqual(begun, ["x1"]);
  await next();
});

test("a close refuses waiting and later bodies", async () => {
  const { turns, take, end } = heldTurns();
  const first = take("a1");
  const waiting = take("b1");
  turns.close();
  const isStopping = (error: unknown): boolean =>
    error instanceof StatusError && error.code === 50300 && error.headers["retry-after"] === "5";
  await assert.rejects(waiting, isStopping);
  await assert.rejects(take("c1"), isStopping);
  end();
  assert.equal(await first, "a1");
});

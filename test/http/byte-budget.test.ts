import assert from "node:assert/strict";
import { test } from "node:test";

import { StatusError } from "../../src/domain/status.ts";
import {
  ROOM_WAITS_MAX,
  ROOM_WAITS_PER_HOLDER_MAX,
  ROOM_WAIT_MS_MAX,
} from "../../src/http/admission/limits.ts";
import { ByteBudget } from "../../src/http/admission/room.ts";
import { AccountTurns } from "../../src/http/admission/turns.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const never = (): AbortSignal => new AbortController().signal;

function budgetOf(bytes: number) {
  const clock = createFakeClock({ now: 0 });
  return { clock, budget: new ByteBudget({ bytes, clock }) };
}

/** Takes pieces of ten bytes while room is left. */
function fill(budget: ByteBudget, holder: string): number {
  let taken = 0;
  while (budget.open(holder).takeNow(10)) taken += 10;
  return taken;
}

/** The refusal of a wait. */
async function refusalOf(waiting: Promise<void>): Promise<StatusError> {
  const error: unknown = await waiting.then(
    () => null,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof StatusError, "it was not refused");
  return error;
}

test("the first holder gets half of the bytes, the next one half of the rest, and so on", () => {
  const { budget } = budgetOf(1200);
  assert.deepEqual(
    ["a", "b", "c", "a"].map((holder) => fill(budget, holder)),
    [600, 300, 150, 0],
  );
});

test("a holder without bytes gets room while others hold less than four times the budget", () => {
  const { budget } = budgetOf(100);
  budget.open("a").set(390);
  assert.ok(budget.open("b").takeNow(10));
  assert.ok(!budget.open("b").takeNow(1));
  assert.ok(!budget.open("c").takeNow(1), "four times the budget are held");
});

test("a piece larger than the budget gets room if some is free", () => {
  const { budget } = budgetOf(100);
  const large = budget.open("a");
  assert.ok(large.takeNow(1000));
  assert.ok(!budget.open("a").takeNow(1));
  large.end();
  assert.equal(budget.bytes, 0);
});

test("returned room goes to waiting holders in turn", async () => {
  const { budget } = budgetOf(120);
  const [full, other] = [budget.open("a"), budget.open("b")];
  full.set(90);
  other.set(30);
  const got: string[] = [];
  const waits = ["a", "a", "a", "b", "b"].map(async (holder, at) => {
    await budget.open(holder).take(20, never);
    got.push(`${holder}${at}`);
  });
  assert.equal(budget.waiting, 5);
  full.end();
  other.end();
  // Of 120 bytes each holder has 40, and 40 are free.
  await Promise.all([waits[0], waits[1], waits[3], waits[4]]);
  assert.deepEqual(got, ["a0", "b3", "a1", "b4"]);
  assert.equal(budget.waiting, 1);
});

test("a holder that waits too long is 42900 with its bytes and Retry-After", async () => {
  const { budget, clock } = budgetOf(100);
  const held = budget.open("a");
  held.set(50);
  const waiting = refusalOf(budget.open("a").take(10, never));
  clock.advance(ROOM_WAIT_MS_MAX - 1);
  assert.equal(budget.waiting, 1);
  clock.advance(1);
  const { code, details, headers } = await waiting;
  assert.equal(code, 42900);
  assert.match(details[0]?.detail ?? "", /may take 50 bytes.*: yours take 50/);
  assert.equal(headers?.["retry-after"], "5");
  assert.equal(budget.waiting, 0);
  assert.deepEqual(clock.pending(), []);
});

test("a holder without bytes that finds no room is 50300", async () => {
  const { budget, clock } = budgetOf(100);
  budget.open("a").set(400);
  const waiting = refusalOf(budget.open("b").take(10, never));
  clock.advance(ROOM_WAIT_MS_MAX);
  assert.equal((await waiting).code, 50300);
});

test("a wait beyond the limit of waits is refused immediately", async () => {
  const { budget } = budgetOf(10);
  const holds = Array.from({ length: 5 }, (_, at) => {
    const hold = budget.open(`${at}`);
    hold.set(10);
    return hold;
  });
  const waits: Promise<void>[] = [];
  for (const at of holds.keys()) {
    for (let i = 0; i < ROOM_WAITS_PER_HOLDER_MAX && budget.waiting < ROOM_WAITS_MAX; i++) {
      waits.push(budget.open(`${at}`).take(1, never));
    }
  }
  assert.equal(budget.waiting, ROOM_WAITS_MAX);
  assert.equal((await refusalOf(budget.open("0").take(1, never))).code, 42900);
  assert.equal((await refusalOf(budget.open("4").take(1, never))).code, 42900);
});

test("a client that disconnects ends its wait and leaves no timer", async () => {
  const { budget, clock } = budgetOf(10);
  const held = budget.open("a");
  held.set(10);
  const gone = new AbortController();
  const waiting = refusalOf(budget.open("a").take(10, () => gone.signal));
  gone.abort();
  await waiting;
  assert.equal(budget.waiting, 0);
  assert.deepEqual(clock.pending(), []);
  held.end();
  assert.equal(budget.bytes, 0);
});

test("an ended hold has no bytes", () => {
  const { budget } = budgetOf(10);
  const hold = budget.open("a");
  hold.set(5);
  hold.end();
  hold.set(7);
  assert.equal(budget.bytes, 0);
});

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

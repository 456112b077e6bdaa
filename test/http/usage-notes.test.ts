import assert from "node:assert/strict";
import { test } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { usageNotes } from "../../src/http/usage-notes.ts";
import { StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const FULL = () => Promise.reject(new StoreError("full", "no space"));

/** Notes of keys and workers on a store whose writes are listed as `id time`. */
function setUp() {
  const clock = createFakeClock({ now: 1000 });
  const logged: { readonly level: string; readonly facts: LogFacts }[] = [];
  const note = (level: string) => (facts: LogFacts) => void logged.push({ level, facts });
  const log: Logger = {
    ...{ debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") },
  };
  const writes: (readonly string[])[] = [];
  let step: () => Promise<void> = async () => {};
  const write = (uses: readonly string[]) => {
    writes.push(uses);
    return step();
  };
  const store = {
    touchKeys: (uses: readonly { keyId: string; usedAt: number }[]) =>
      write(uses.map(({ keyId, usedAt }) => `${keyId} ${usedAt}`)),
    touchWorkers: (uses: readonly { workerId: number; seenAt: number }[]) =>
      write(uses.map(({ workerId, seenAt }) => `${workerId} ${seenAt}`)),
    touchSessions: () => assert.fail(),
  };
  const { keyUsage: usage, workerUsage } = usageNotes({ store, clock, log });
  const writeBy = (next: () => Promise<void>): void => void (step = next);
  const passMinute = async () => {
    clock.advance(MINUTE_MS);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { clock, logged, writes, usage, workerUsage, writeBy, passMinute };
}

test("a use is shown before it is written, and a minute has one write with the last use of each key", async () => {
  const { usage, clock, writes, passMinute } = setUp();
  assert.deepEqual(clock.pending(), []);
  for (let i = 0; i < 1000; i++) usage.note(i % 2 === 0 ? "a" : "b", 1000 + i);
  assert.equal(usage.lastUses()("a", null), 1998);
  assert.equal(usage.lastUses()("c", null), null);
  assert.equal(usage.lastUses()("c", 7), 7);
  clock.advance(MINUTE_MS - 1);
  assert.deepEqual(writes, []);
  clock.advance(1);
  await passMinute();
  await usage.write();

  assert.deepEqual(writes, [["a 1998", "b 1999"]]);
  assert.deepEqual(clock.pending(), []);
});

test("the last use never goes back if the clock is set back", async () => {
  const { usage, writes } = setUp();
  usage.note("a", 9000);
  usage.note("a", 4000);
  assert.equal(usage.lastUses()("a", null), 9000);
  assert.equal(usage.lastUses()("a", 9500), 9500);

  await usage.write();

  assert.deepEqual(writes, [["a 9000"]]);
});

test("a write at the stop leaves no timer", async () => {
  const { usage, clock, writes } = setUp();
  usage.note("a", 1000);
  await usage.write();

  assert.deepEqual(writes, [["a 1000"]]);
  assert.deepEqual(clock.pending(), []);
});

test("a use during a write is kept for the next write, and uses are shown until they are written", async () => {
  const { usage, writes, writeBy, passMinute } = setUp();
  const done = Promise.withResolvers<void>();
  writeBy(() => done.promise);
  usage.note("a", 1000);
  usage.note("b", 1000);
  const written = usage.write();
  usage.note("a", 2000);
  assert.equal(usage.lastUses()("b", null), 1000);
  done.resolve();
  await written;

  assert.equal(usage.lastUses()("a", 1000), 2000);
  await passMinute();
  assert.deepEqual(writes[1], ["a 2000"]);
});

test("last uses that were taken before a read have uses that are written during the read", async () => {
  const { usage } = setUp();
  usage.note("a", 1000);
  const lastUses = usage.lastUses();
  await usage.write();

  assert.equal(lastUses("a", null), 1000);
});

test("a write that fails is logged, and written a minute later without another use", async () => {
  const { usage, writes, logged, writeBy, passMinute } = setUp();
  writeBy(FULL);
  usage.note("a", 1000);
  await passMinute();
  assert.deepEqual(logged, [{ level: "warn", facts: { kind: "full" } }]);
  assert.equal(usage.lastUses()("a", null), 1000);

  writeBy(async () => {});
  await passMinute();

  assert.deepEqual(writes, [["a 1000"], ["a 1000"]]);
});

test("a fault of the store is logged as an error and rejects nothing", async () => {
  const { usage, logged, writeBy, passMinute } = setUp();
  writeBy(() => Promise.reject(new TypeError("a bug")));
  usage.note("a", 1000);
  await passMinute();

  assert.deepEqual(
    logged.map(({ level }) => level),
    ["error"],
  );
});

test("uses of workers are written by their ids", async () => {
  const { workerUsage, writes } = setUp();
  workerUsage.note(7, 1000);
  workerUsage.note(8, 1500);
  workerUsage.note(7, 2000);
  await workerUsage.write();

  assert.deepEqual(writes, [["7 2000", "8 1500"]]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { usageNotes } from "../../src/http/usage-notes.ts";
import { StoreError, type KeyUse, type WorkerUse } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const UNUSED = { touchKeys: unused, touchWorkers: unused, touchSessions: unused };

function unused(): never {
  assert.fail("nothing of this kind was used");
}

/** Notes of keys on a store that keeps what it is told, one settled step at a time. */
function setUp() {
  const clock = createFakeClock({ now: 1000 });
  const logged: { readonly level: string; readonly facts: LogFacts }[] = [];
  const note = (level: string) => (facts: LogFacts) => void logged.push({ level, facts });
  const log: Logger = {
    ...{ debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") },
  };
  const writes: (readonly KeyUse[])[] = [];
  let step: () => Promise<void> = async () => {};
  const store = {
    touchKeys(uses: readonly KeyUse[]) {
      writes.push(uses);
      return step();
    },
  };
  const { keyUsage: usage } = usageNotes({ store: { ...UNUSED, ...store }, clock, log });
  const answerBy = (next: () => Promise<void>): void => void (step = next);
  return { clock, logged, writes, usage, answerBy };
}

/** Lets what is settled be taken note of. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("shows a use at once, and writes nothing for it", () => {
  const { usage, writes } = setUp();
  usage.note("a", 1000);

  assert.equal(usage.lastUses()("a", null), 1000);
  assert.equal(usage.lastUses()("b", null), null);
  assert.equal(usage.lastUses()("b", 7), 7);
  assert.deepEqual(writes, []);
});

test("a thousand uses in a minute are one write, of the last of each key", async () => {
  const { usage, clock, writes } = setUp();
  for (let i = 0; i < 1000; i++) usage.note(i % 2 === 0 ? "a" : "b", 1000 + i);
  clock.advance(MINUTE_MS - 1);
  assert.deepEqual(writes, []);
  clock.advance(1);
  await turn();

  const last = [
    { keyId: "a", usedAt: 1998 },
    { keyId: "b", usedAt: 1999 },
  ];
  assert.deepEqual(writes, [last]);
  assert.equal(usage.lastUses()("a", 1998), 1998);
});

test("nothing is written, and no timer waits, while no key is used", async () => {
  const { usage, clock, writes } = setUp();
  assert.deepEqual(clock.pending(), []);
  usage.note("a", 1000);
  clock.advance(MINUTE_MS);
  await turn();

  clock.advance(60 * MINUTE_MS);
  await usage.write();

  assert.equal(writes.length, 1);
  assert.deepEqual(clock.pending(), []);
});

test("the last use never goes back when the clock is set back", async () => {
  const { usage, writes } = setUp();
  usage.note("a", 9000);
  usage.note("a", 4000);
  assert.equal(usage.lastUses()("a", null), 9000);
  assert.equal(usage.lastUses()("a", 9500), 9500);

  await usage.write();

  assert.deepEqual(writes, [[{ keyId: "a", usedAt: 9000 }]]);
});

test("a stop writes what was noted, and no timer is left", async () => {
  const { usage, clock, writes } = setUp();
  usage.note("a", 1000);
  await usage.write();

  assert.deepEqual(writes, [[{ keyId: "a", usedAt: 1000 }]]);
  assert.deepEqual(clock.pending(), []);
  clock.advance(MINUTE_MS);
  assert.equal(writes.length, 1);
});

test("what is noted while a write is under way is kept for the next", async () => {
  const { usage, clock, writes, answerBy } = setUp();
  const done = Promise.withResolvers<void>();
  answerBy(() => done.promise);
  usage.note("a", 1000);
  usage.note("b", 1000);
  const written = usage.write();
  usage.note("a", 2000);
  assert.equal(usage.lastUses()("b", null), 1000, "shown from memory until it is on disk");
  done.resolve();
  await written;

  assert.equal(usage.lastUses()("a", 1000), 2000);
  assert.equal(usage.lastUses()("b", 1000), 1000);
  clock.advance(MINUTE_MS);
  await turn();
  assert.deepEqual(writes[1], [{ keyId: "a", usedAt: 2000 }]);
});

test("a use that is written while the store is read is not missed", async () => {
  const { usage } = setUp();
  usage.note("a", 1000);
  const lastUses = usage.lastUses();
  const storedBefore = null;
  await usage.write();

  assert.equal(lastUses("a", storedBefore), 1000);
});

test("what cannot be written is said once a try, kept, and written when it can be", async () => {
  const { usage, clock, writes, logged, answerBy } = setUp();
  answerBy(() => Promise.reject(new StoreError("full", "no space")));
  usage.note("a", 1000);
  clock.advance(MINUTE_MS);
  await turn();
  assert.deepEqual(logged, [{ level: "warn", facts: { kind: "full" } }]);
  assert.equal(usage.lastUses()("a", null), 1000);

  answerBy(async () => {});
  usage.note("b", 2000);
  clock.advance(MINUTE_MS);
  await turn();

  const both = [
    { keyId: "a", usedAt: 1000 },
    { keyId: "b", usedAt: 2000 },
  ];
  assert.deepEqual(writes[1], both);
});

test("a use that a full disk refused is written a minute later though no key is used any more", async () => {
  const { usage, clock, writes, answerBy } = setUp();
  answerBy(() => Promise.reject(new StoreError("full", "no space")));
  usage.note("a", 1000);
  clock.advance(MINUTE_MS);
  await turn();
  answerBy(async () => {});
  clock.advance(MINUTE_MS);
  await turn();

  assert.equal(writes.length, 2);
});

test("a store that breaks a rule is logged as an error and takes nothing down with it", async () => {
  const { usage, clock, logged, answerBy } = setUp();
  answerBy(() => Promise.reject(new TypeError("a bug")));
  usage.note("a", 1000);
  clock.advance(MINUTE_MS);
  await turn();

  assert.deepEqual(
    logged.map(({ level }) => level),
    ["error"],
  );
});

test("workers are noted by their ids, and written by the store's verb for them", async () => {
  const { clock, logged } = setUp();
  const writes: (readonly WorkerUse[])[] = [];
  const store = {
    async touchWorkers(uses: readonly WorkerUse[]) {
      writes.push(uses);
      if (writes.length === 1) throw new StoreError("busy", "locked");
    },
  };
  const warn = (facts: LogFacts) => void logged.push({ level: "warn", facts });
  const log: Logger = { debug() {}, info() {}, warn, error() {} };
  const { workerUsage: usage } = usageNotes({ store: { ...UNUSED, ...store }, clock, log });
  usage.note(7, 1000);
  usage.note(8, 1500);
  usage.note(7, 2000);
  await usage.write();
  await usage.write();

  const both = [
    { workerId: 7, seenAt: 2000 },
    { workerId: 8, seenAt: 1500 },
  ];
  assert.deepEqual(writes, [both, both]);
  assert.deepEqual(logged, [{ level: "warn", facts: { kind: "busy" } }]);
});

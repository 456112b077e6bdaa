import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { LeaseReaper } from "../../src/run/lease-reaper.ts";
import { HeldLeases } from "../../src/run/leases.ts";
import type { WorkerType } from "../../src/run/worker-desk.ts";
import { type Lease, type LeaseEnd, type LeaseEnds, StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const NOW = 1_000_000;
const TYPE: WorkerType = { concurrency: 1, retries: 0, leaseMs: 30_000, timeoutMs: 90_000 };

/** A reaper of a store with these leases, all due. */
function startReaper(leases: readonly Lease[], { type = {}, areRevived = false } = {}) {
  const clock = createFakeClock({ now: NOW });
  const due = [...leases];
  const ended: (readonly LeaseEnd[])[] = [];
  const faults: unknown[] = [];
  const lines: [string, LogFacts][] = [];
  const warn = (facts: LogFacts, message: string): void => void lines.push([message, facts]);
  const reaper = new LeaseReaper({
    ...{ clock, log: { ...log, warn }, giveUp: new AbortController().signal, retentionMs: 1000 },
    types: new Map([["print", { ...TYPE, ...type }]]),
    mayReap: () => true,
    store: { listDueLeases: async ({ max }) => due.slice(0, max) },
    end: async ({ ends }: LeaseEnds) => {
      ended.push(ends);
      if (!areRevived) due.splice(0, ends.length);
      return ends.map(() => ({ outcome: "ok", isNew: !areRevived, lanes: [] }));
    },
    failed: (error) => void faults.push(error),
  });
  return { clock, reaper, ended, faults, lines };
}

function lease(facts: Partial<Lease> = {}): Lease {
  const times = { expiresAt: NOW, deadlineAt: NOW + 1 };
  return { id: "a", leaseId: "l", type: "print", failures: 0, losses: 0, ...times, ...facts };
}

async function endOf(given: Lease, type: Partial<WorkerType> = {}): Promise<LeaseEnd> {
  const { reaper, ended } = startReaper([given], { type });
  reaper.loop.wake();
  await reaper.loop.quiet();
  const [end] = ended.flat();
  assert(end !== undefined && ended.flat().length === 1);
  return end;
}

test("an expired lease queues its task again four times, and fails it the fifth time", async () => {
  for (const losses of [0, 3]) {
    const { how, sequel } = await endOf(lease({ losses }));
    assert.deepEqual([how, sequel], ["expired", { kind: "requeue", isRunCounted: true }]);
  }
  const { how, sequel } = await endOf(lease({ losses: 4 }), { retries: 100 });
  assert.deepEqual([how, sequel.kind === "finish" && sequel.code], ["expired", 50010]);
});

test("a run past its timeout has timed out, even if its lease expired before", async () => {
  for (const expiresAt of [NOW, NOW - 60_000]) {
    const { how, sequel } = await endOf(lease({ expiresAt, deadlineAt: NOW, losses: 4 }));
    assert.deepEqual([how, sequel.kind === "finish" && sequel.code], ["timed_out", 50401]);
  }
});

test("a timed-out run is retried by the retries of its type", async () => {
  const late = { deadlineAt: NOW, failures: 1 };
  const again = await endOf(lease(late), { retries: 2 });
  assert.deepEqual(again.sequel, { kind: "retry", startAt: NOW + 2000 });
  const last = await endOf(lease({ ...late, failures: 2 }), { retries: 2 });
  assert.equal(last.sequel.kind, "finish");
  const unknown = await endOf(lease({ ...late, type: "gone" }), { retries: 2 });
  assert.equal(unknown.sequel.kind, "finish");
});

test("one tick ends all expired leases, in batches", async () => {
  const leases = Array.from({ length: 250 }, (_, i) => lease({ id: String(i) }));
  const { reaper, ended } = startReaper(leases);
  reaper.loop.wake();
  await reaper.loop.quiet();
  assert.deepEqual(
    ended.map(({ length }) => length),
    [100, 100, 50],
  );
});

test("expired leases are logged in one line for each type and reason", async () => {
  const vanished = Array.from({ length: 10_000 }, (_, i) => lease({ id: String(i) }));
  const fifth = lease({ id: "fifth", losses: 4 });
  const slow = lease({ id: "slow", deadlineAt: NOW });
  const { reaper, lines } = startReaper([...vanished, fifth, slow]);
  reaper.loop.wake();
  await reaper.loop.quiet();

  const type = "print";
  const tasks = Array.from({ length: 10 }, (_, i) => String(i));
  assert.deepEqual(
    lines.map(([, facts]) => facts),
    [
      { type, leases: 10_000, tasks },
      { type, leases: 1, tasks: ["fifth"] },
      { type, leases: 1, tasks: ["slow"] },
    ],
  );
  reaper.loop.wake();
  await reaper.loop.quiet();
  assert.equal(lines.length, 3);
});

test("a revived lease is not logged", async () => {
  const { reaper, lines } = startReaper([lease()], { areRevived: true });
  reaper.loop.wake();
  await reaper.loop.quiet();
  assert.deepEqual(lines, []);
});

test("a tick ends, although leases are revived again and again", async () => {
  const leases = Array.from({ length: 250 }, (_, i) => lease({ id: String(i) }));
  const { reaper, ended } = startReaper(leases, { areRevived: true });
  reaper.loop.wake();
  await reaper.loop.quiet();
  assert.equal(ended.length, 1);
});

test("a tick at the end of another tick is not lost", async () => {
  const { reaper, ended } = startReaper([lease()], { areRevived: true });
  reaper.loop.wake();
  for (let i = 0; i < 100 && !reaper.loop.isIdle(); i++) {
    reaper.loop.wake();
    await Promise.resolve();
  }
  const before = ended.length;
  reaper.loop.wake();
  await reaper.loop.quiet();
  assert.ok(before > 1);
  assert.ok(ended.length > before);
});

test("no lease ends after a stop, and a failure of the store is reported once", async () => {
  const stopped = startReaper([lease()]);
  stopped.reaper.loop.drain();
  stopped.reaper.loop.wake();
  await stopped.reaper.loop.quiet();
  assert.deepEqual(stopped.ended, []);

  const faults: unknown[] = [];
  const error = new StoreError("failed", "I/O error");
  const reaper = new LeaseReaper({
    ...{ clock: createFakeClock({ now: NOW }), log, giveUp: new AbortController().signal },
    ...{ types: new Map(), retentionMs: 1000 },
    mayReap: () => true,
    store: { listDueLeases: () => Promise.reject(error) },
    end: () => assert.fail("nothing is known to have run out"),
    failed: (fault) => void faults.push(fault),
  });
  reaper.loop.wake();
  await reaper.loop.quiet();
  assert.deepEqual(faults, [error]);
});

const numbered = (n: number): Lease => lease({ id: `task-${n}`, leaseId: `lease-${n}` });

test("the oldest leases above the limit are forgotten, and a lease that is held again is the newest", () => {
  const held = new HeldLeases(3);
  for (const n of [1, 2, 3]) held.hold(numbered(n));
  held.hold(numbered(1));
  held.hold(numbered(4));
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => held.isHeld(numbered(n))),
    [true, false, true, true],
  );
  assert.equal(held.countOf("print"), 3);
});

test("without a limit all leases are kept", () => {
  const held = new HeldLeases();
  for (let n = 0; n < 20_000; n++) held.hold(numbered(n));
  assert.equal(held.countOf("print"), 20_000);
});

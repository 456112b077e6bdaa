import assert from "node:assert/strict";
import { test } from "node:test";

import { EMPTY_ALLOW_LIST } from "../../src/domain/allow-list.ts";
import type { Logger } from "../../src/domain/log.ts";
import { DeliveryDispatcher, type DeliveryQueue } from "../../src/engine/delivery-dispatcher.ts";
import { persist } from "../../src/engine/persist.ts";
import { StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };

function newParts() {
  const stop = new AbortController();
  return { stop, clock: createFakeClock({ now: 1000 }), log, giveUp: stop.signal };
}

function unexpected(): never {
  throw new Error("must not be called");
}

test("a step that the store cannot do yet is tried again every second until it can", async () => {
  const { clock, giveUp } = newParts();
  let tries = 0;
  const done = persist(
    async () => {
      if (++tries < 3) throw new StoreError("full", "no space");
      return "kept";
    },
    { clock, log, giveUp },
  );
  for (let i = 0; i < 2; i++) {
    await clock.whenPending(1);
    clock.advance(1000);
  }

  assert.equal(await done, "kept");
  assert.equal(tries, 3);
});

test("a step that cannot be done is given up when the process must end", async () => {
  const { stop, clock, giveUp } = newParts();
  const step = () => Promise.reject(new StoreError("busy", "locked"));
  const done = persist(step, { clock, log, giveUp });
  await clock.whenPending(1);
  stop.abort();

  await assert.rejects(done, (error) => error instanceof StoreError && error.kind === "closed");
  assert.deepEqual(clock.pending(), []);
});

test("a step that the store can never do is not tried again", async () => {
  const { clock, giveUp } = newParts();
  const step = () => Promise.reject(new StoreError("failed", "I/O error"));

  await assert.rejects(persist(step, { clock, log, giveUp }), { kind: "failed" });
});

test("a claim that the store fails leaves nothing in flight to wait for", async () => {
  const parts = newParts();
  const faults: unknown[] = [];
  const store: DeliveryQueue = {
    claimAttempts: () => Promise.reject(new StoreError("failed", "I/O error")),
    recordAttempt: unexpected,
    listLanes: unexpected,
    listInFlight: unexpected,
    shiftAttempts: unexpected,
    hastenAttempts: unexpected,
  };
  const dispatcher = new DeliveryDispatcher({
    ...parts,
    store,
    sender: { send: unexpected, close: unexpected, abort: unexpected },
    urlPolicy: () => ({ allow: EMPTY_ALLOW_LIST, ownNames: [], ownAddresses: [] }),
    health: { noteAttempt: unexpected },
    limits: { inFlightMax: 8, inFlightPerHostMax: 2 },
    retryAfterMs: [],
    failed: (error) => {
      faults.push(error);
      dispatcher.drain();
    },
  });

  dispatcher.wake(["a.example", "b.example"]);
  await dispatcher.quiet();

  assert.equal(faults.length, 1);
  assert.equal(dispatcher.isIdle(), true);
});

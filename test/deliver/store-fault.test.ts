import assert from "node:assert/strict";
import { test } from "node:test";

import { DeliveryDispatcher, type DeliveryQueue } from "../../src/deliver/delivery-dispatcher.ts";
import { EMPTY_ALLOW_LIST } from "../../src/domain/address/allow-list.ts";
import type { Logger } from "../../src/domain/log.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import { WaitingSteps, keepTrying } from "../../src/store/retry.ts";
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
  const done = keepTrying(
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
  const done = keepTrying(step, { clock, log, giveUp });
  await clock.whenPending(1);
  stop.abort();

  await assert.rejects(done, (error) => error instanceof StoreError && error.kind === "closed");
  assert.deepEqual(clock.pending(), []);
});

test("a step that may have happened is not tried again: it would happen twice", async () => {
  const { clock, giveUp } = newParts();
  let tries = 0;
  const step = (): Promise<never> => {
    tries++;
    return Promise.reject(new StoreError("unknown", "its reply was lost"));
  };

  await assert.rejects(keepTrying(step, { clock, log, giveUp }), { kind: "unknown" });
  assert.equal(tries, 1);
});

test("steps that wait are told by one line when it begins, one a minute, and one when it is over", async () => {
  const { stop, clock, giveUp } = newParts();
  const lines: string[] = [];
  const note = (facts: object, message: string): void =>
    void lines.push(`${JSON.stringify(facts)} ${message}`);
  const noting = { ...log, info: note, warn: note };
  const waitingSteps = new WaitingSteps({ clock, log: noting });
  let isFull = true;
  const step = async (): Promise<void> => {
    if (isFull) throw new StoreError("full", "no room");
  };
  const begin = (): Promise<void> => keepTrying(step, { clock, log: noting, giveUp, waitingSteps });
  const pass = async (seconds: number): Promise<void> => {
    for (let i = 0; i < seconds; i++) {
      await clock.whenPending(100);
      clock.advance(1000);
    }
  };

  const all = Array.from({ length: 100 }, begin);
  await pass(150);
  isFull = false;
  await pass(1);
  await Promise.all(all);

  const told = "no room; waiting steps are tried again every second";
  assert.deepEqual(lines, [
    `{"kind":"full","waiting":1} ${told}`,
    `{"kind":"full","waiting":100} ${told}`,
    `{"kind":"full","waiting":100} ${told}`,
    "{} the database can be written again: no step waits any more",
  ]);

  // Full again within the minute, and over again: nobody needs to be told of each.
  lines.length = 0;
  isFull = true;
  const more = Array.from({ length: 100 }, begin);
  await pass(2);
  stop.abort();
  await Promise.allSettled(more);
  assert.deepEqual(lines, []);
});

test("a step that the store can never do is not tried again", async () => {
  const { clock, giveUp } = newParts();
  const step = () => Promise.reject(new StoreError("failed", "I/O error"));

  await assert.rejects(keepTrying(step, { clock, log, giveUp }), { kind: "failed" });
});

test("a claim that the store fails leaves nothing in flight to wait for", async () => {
  const parts = newParts();
  const faults: unknown[] = [];
  const store: DeliveryQueue = {
    claimAttempts: () => Promise.reject(new StoreError("failed", "I/O error")),
    makeLargePostback: unexpected,
    recordAttempt: unexpected,
    listLanes: unexpected,
    listDueLanes: unexpected,
    listProvenLanes: unexpected,
    listInFlight: unexpected,
    shiftTimes: unexpected,
    hastenAttempts: unexpected,
  };
  const dispatcher = new DeliveryDispatcher({
    ...parts,
    store,
    cluster: newLoneNode(parts.clock),
    sender: { send: unexpected, abort: unexpected },
    urlPolicy: () => ({ allow: EMPTY_ALLOW_LIST, ownNames: [], ownAddresses: [] }),
    health: { noteAttempt: unexpected },
    limits: { inFlightMax: 8, inFlightPerHostMax: 2 },
    retryAfterMs: [],
    failed: (error) => {
      faults.push(error);
      dispatcher.drain();
    },
  });

  dispatcher.wake(["a.example", "b.example"].map((host) => ({ accountId: 1, host })));
  await dispatcher.quiet();

  assert.equal(faults.length, 1);
  assert.equal(dispatcher.isIdle(), true);
});

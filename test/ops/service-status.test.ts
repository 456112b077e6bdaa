import assert from "node:assert/strict";
import { test } from "node:test";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { notReadyReason } from "../../src/ops/conditions.ts";
import { statusSource } from "../../src/ops/nodes.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import { StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const FAULT = new StoreError("failed", "I/O error at /srv/secret.db");
const SOUND = { runs: { all: 0, failed: 0 }, receivers: { all: 0, failed: 0 } };

function setUp() {
  const clock = createFakeClock({ now: 0 });
  const state: { fault: StoreError | null; isHalted: boolean; isOpen: boolean; reads: number } = {
    ...{ fault: null, isHalted: false, isOpen: true, reads: 0 },
  };
  const store = {
    cluster: newLoneNode(clock),
    fault: () => state.fault,
    listNodes: async () => [],
    findOldestQueued: async () => {
      state.reads++;
      if (state.fault !== null) throw state.fault;
      return 0;
    },
  };
  const engine = {
    get isHalted() {
      return state.isHalted;
    },
    health: () => SOUND,
  };
  return { clock, state, store, engine };
}

test("the status is decided once a second, by the store, the engine and the oldest queued task", async () => {
  const { clock, state, store, engine } = setUp();
  const config = { types: new Map() };
  const isAccepting = () => state.isOpen;
  const parts = { config, clock, store, engine } as unknown as Parameters<typeof statusSource>[0];
  const read = statusSource(parts, { isAccepting, hasRoom: async () => true });
  const words = async () => Object.values((await read()).components).join(" ");
  const fine = "operational operational operational";
  await Promise.all(Array.from({ length: 40 }, words));
  state.fault = FAULT;
  clock.advance(999);
  assert.equal(await words(), fine);
  assert.equal(state.reads, 1);

  for (const [change, expected] of [
    [{}, "down operational operational"],
    [{ fault: null, isOpen: false }, "down operational operational"],
    [{ isOpen: true, isHalted: true }, "operational down down"],
    [{ isHalted: false }, fine],
  ] as const) {
    Object.assign(state, change);
    clock.advance(1000);
    assert.equal(await words(), expected);
  }
  clock.advance(15 * MINUTE_MS);
  assert.equal(await words(), "operational degraded operational");
});

test("/readyz fails with a fault of the store or engine, without space and while the API is closed", async () => {
  const { state, store, engine } = setUp();
  let shortage: string | null = null;
  const storage = { shortage: async () => shortage };
  const reason = () => notReadyReason({ store, engine, storage, isOpen: state.isOpen });
  assert.equal(await reason(), null);
  state.isOpen = false;
  const closed = (await reason()) ?? assert.fail();
  state.isOpen = true;
  shortage = "no space";
  assert.equal(await reason(), "no space");
  state.isHalted = true;
  const halted = (await reason()) ?? assert.fail();
  state.fault = FAULT;
  const broken = (await reason()) ?? assert.fail();
  assert.equal(new Set([closed, halted, broken, shortage]).size, 4);
  assert.doesNotMatch(broken, /secret/);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { loadConfig } from "../../src/config/config.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { conditionSource } from "../../src/ops/conditions.ts";
import type { TypeSample } from "../../src/ops/metrics.ts";
import { StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const PRINT: TypeSample = {
  ...{ name: "print", running: 0, waiting: 1, isMoreWaiting: false, oldestMs: 2 * MINUTE_MS },
  ...{ workersWaiting: 0, hasWorker: false },
};

function startSource() {
  const verdict = loadConfig({ flags: {}, env: {}, cwd: "/", readFile: () => null });
  assert(verdict.kind === "config");
  const clock = createFakeClock();
  const state: { types: readonly TypeSample[] | null; diskFreeBytes: number | null } = {
    types: [],
    diskFreeBytes: 1e12,
  };
  const look = conditionSource({
    ...{ config: verdict.config, clock, certificate: () => null, fault: () => null },
    ...{ watch: { warnings: () => [] }, backups: { state: () => null }, nodes: () => 1 },
    ...{ receivers: { failing: () => [] }, floods: { accounts: () => [] } },
    proxies: { address: () => null },
    store: { listNodes: async () => [] },
    shortage: async () => null,
    async workerTypes() {
      if (state.types === null) throw new StoreError("busy", "locked by another process");
      return state.types;
    },
    database: {
      async sizes() {
        const { diskFreeBytes } = state;
        return { bytes: 0, walBytes: 0, diskFreeBytes, diskTotalBytes: null };
      },
    },
  });
  const names = async () => (await look()).conditions.map(({ name }) => name);
  return { clock, state, look, names };
}

test("a worker is missing after half a minute of checks without one, whatever the wall clock is", async () => {
  const { clock, state, names } = startSource();
  clock.advance(MINUTE_MS);
  assert.deepEqual(await names(), []);

  // The clock was set forward: each worker returns a moment later.
  state.types = [PRINT];
  for (let i = 0; i < 2; i++) {
    assert.deepEqual(await names(), []);
    clock.advance(15_000);
  }
  state.types = [{ ...PRINT, hasWorker: true }];
  assert.deepEqual(await names(), []);

  state.types = [PRINT];
  assert.deepEqual(await names(), []);
  clock.advance(15_000);
  assert.deepEqual(await names(), []);
  clock.advance(15_000);
  assert.deepEqual(await names(), ["worker.missing"]);
});

test("conditions of unreadable types and of an unreadable disk are unknown", async () => {
  const { state, look } = startSource();
  assert.deepEqual(await look(), { conditions: [], unknown: new Set() });

  state.types = null;
  state.diskFreeBytes = null;
  const { conditions, unknown } = await look();

  assert.deepEqual(conditions, []);
  assert.deepEqual([...unknown].toSorted(), ["disk.low", "worker.missing"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  databaseWarnings,
  type DatabaseHealth,
  type HeldSnapshot,
} from "../../src/domain/stats/health.ts";

const SOUND: DatabaseHealth = {
  version: "15.14",
  bytes: 10_000_000,
  connections: { used: 9, max: 100 },
  oldestSnapshot: null,
  standbys: [],
  commitsWait: false,
  deadRows: { queue: 0, outbox: 0 },
};

const textsOf = (health: Partial<DatabaseHealth>): string[] =>
  databaseWarnings({ ...SOUND, ...health }).map(({ text }) => text);

test("a snapshot older than a minute is a warning without its holder", () => {
  const snapshot = (ageMs: number | null): HeldSnapshot => ({
    ...{ holder: "slot", name: "copy", pid: null, transactions: 5_000_000 },
    ageMs,
  });
  for (const ageMs of [null, 0, 60_000]) {
    assert.deepEqual(textsOf({ oldestSnapshot: snapshot(ageMs) }), []);
  }

  const [warning, ...others] = databaseWarnings({ ...SOUND, oldestSnapshot: snapshot(60_001) });

  assert.deepEqual(others, []);
  assert.match(warning?.text ?? "", /minute/);
  // The text is public in /readyz.
  assert.doesNotMatch(warning?.text ?? "", /copy|\d/);
  assert.deepEqual(warning?.facts, snapshot(60_001));
});

test("a standby is a warning if commits do not wait for it", () => {
  const standby = { name: "east", state: null, syncState: null, lagBytes: null, lagMs: null };
  assert.deepEqual(textsOf({}), []);
  assert.deepEqual(textsOf({ standbys: [standby], commitsWait: true }), []);
  const [text, ...others] = textsOf({ standbys: [standby] });
  assert.match(text ?? "", /failover/);
  assert.deepEqual(others, []);
});

test("commits that wait for a missing standby are a warning, unless its state is hidden", () => {
  const standby = { name: "east", state: "streaming", lagBytes: null, lagMs: null };
  const of = (...states: readonly (string | null)[]): string[] => {
    const standbys = states.map((syncState) => ({ ...standby, syncState }));
    return textsOf({ commitsWait: true, standbys });
  };
  for (const states of [[], ["async"], ["potential", "async"]]) {
    const [text, ...others] = of(...states);
    assert.match(text ?? "", /^nothing is acknowledged/);
    assert.deepEqual(others, []);
  }
  for (const states of [["sync"], ["quorum", "async"], [null]]) assert.deepEqual(of(...states), []);
});

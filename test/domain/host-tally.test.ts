import assert from "node:assert/strict";
import { test } from "node:test";

import { CountTally, HostTally } from "../../src/domain/stats/work-counts.ts";

function written(tally: HostTally): readonly unknown[] {
  const all: unknown[] = [];
  tally.write((accountId, host, sums) => void all.push([accountId, host, { ...sums }]));
  return all;
}

test("a host's changes are written once for a batch, summed, without zeros", () => {
  const tally = new HostTally(new CountTally());
  const to = { accountId: 1, host: "a.example" };
  tally.add({ ...to, word: "retrying", count: 1 });
  tally.add({ ...to, word: "retrying", count: -1 });
  tally.add({ ...to, word: "given_up", count: 1 });
  tally.add({ accountId: 2, host: "a.example", word: "refused", count: -3 });
  tally.add({ accountId: 1, host: "nothing.example", word: "given_up", count: 1 });
  tally.add({ accountId: 1, host: "nothing.example", word: "given_up", count: -1 });

  assert.deepEqual(written(tally), [
    [1, "a.example", { given_up: 1, refused: 0, retrying: 0 }],
    [2, "a.example", { given_up: 0, refused: -3, retrying: 0 }],
  ]);
  assert.deepEqual(written(tally), []);
});

test("an undone batch writes nothing", () => {
  const tally = new HostTally(new CountTally());
  tally.add({ accountId: 1, host: "a.example", word: "given_up", count: 1 });
  tally.add({ accountId: 1, host: "b.example", word: "given_up", count: 1 });

  tally.reset();

  assert.deepEqual(written(tally), []);
});

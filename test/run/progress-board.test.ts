import assert from "node:assert/strict";
import { test } from "node:test";

import type { TaskProgress } from "../../src/domain/task/run.ts";
import { ProgressBoard } from "../../src/run/nodes.ts";
import { newLoneNode } from "../../src/store/common/lone-node.ts";
import { StoreError, type RunProgress } from "../../src/store/store.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

/** A board of a node that runs the task `own`; `kept` is the progress in the store. */
function newBoard({ isShared = true } = {}) {
  const clock = createFakeClock();
  const cluster = isShared ? new FakeCluster(clock) : newLoneNode(clock);
  const kept = new Map<string, TaskProgress>();
  const told: (readonly string[])[] = [];
  const asked: (readonly string[])[] = [];
  const state = { isReachable: true };
  const board = new ProgressBoard({
    runOf: (id) => (id === "own" ? 1 : null),
    leaseOf: (id) => (id === "leased" ? "its lease" : null),
    failed: (error) => assert.fail(String(error)),
    store: {
      cluster,
      noteProgress: async (runs: readonly RunProgress[]) => {
        if (!state.isReachable) throw new StoreError("unreachable", "no server");
        told.push(runs.map(({ id }) => id));
        for (const { id, progress } of runs) kept.set(id, progress);
      },
      findProgress: async ({ ids }) => {
        asked.push(ids);
        return ids.flatMap((id) => {
          const progress = kept.get(id);
          return progress === undefined ? [] : { id, progress };
        });
      },
    },
  });
  const tell = async () => {
    board.tell.wake();
    await board.tell.quiet();
  };
  return { board, cluster, kept, told, asked, state, tell };
}

function at(progress: number): TaskProgress {
  return { progress, note: null };
}

test("progress is stored for other nodes once, and again when it is newer", async () => {
  const { board, kept, told, tell } = newBoard();
  await tell();
  board.known.set("own", at(0.1));
  board.known.set("leased", at(0.2));
  await tell();
  await tell();
  board.known.set("own", at(0.3));
  await tell();

  assert.deepEqual(told, [["own", "leased"], ["own"]]);
  assert.deepEqual([kept.get("own"), kept.get("leased")], [at(0.3), at(0.2)]);
});

test("a worker's progress is read from the store, because its next report may go to another node", async () => {
  const { board, kept, tell } = newBoard();
  board.known.set("own", at(0.1));
  board.known.set("leased", at(0.2));
  await tell();
  kept.set("leased", at(0.9));
  kept.set("elsewhere", at(0.5));

  const progressOf = await board.find(["own", "leased", "elsewhere", "silent"]);

  assert.deepEqual(["own", "leased", "elsewhere", "silent"].map(progressOf), [
    at(0.1),
    at(0.9),
    at(0.5),
    null,
  ]);
});

test("progress that could not be stored is stored a second later, and shown meanwhile", async () => {
  const { board, told, state, tell } = newBoard();
  board.known.set("leased", at(0.2));
  state.isReachable = false;
  await tell();
  assert.deepEqual((await board.find(["leased"]))("leased"), at(0.2));
  state.isReachable = true;
  await tell();
  assert.deepEqual(told, [["leased"]]);
});

test("a node outside the cluster forgets the progress of leases, which others may have taken over", async () => {
  const { board, cluster, told, tell } = newBoard();
  assert(cluster instanceof FakeCluster);
  cluster.isIn = false;
  board.known.set("own", at(0.1));
  board.known.set("leased", at(0.2));
  await tell();
  cluster.isIn = true;
  await tell();
  assert.deepEqual(told, [["own"]]);
});

test("a lone node neither stores nor reads progress", async () => {
  const { board, told, asked, tell } = newBoard({ isShared: false });
  board.known.set("leased", at(0.2));
  await tell();
  assert.deepEqual((await board.find(["leased", "other"]))("leased"), at(0.2));
  assert.deepEqual([told, asked], [[], []]);
});

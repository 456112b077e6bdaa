import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { TaskSummary } from "../../src/domain/task/task.ts";
import { LIST_TURN_MAX, listByTurns } from "../../src/store/sqlite/list-turns.ts";
import type { Store } from "../../src/store/store.ts";
import {
  newFinish,
  newPost,
  newTask,
  openTestStore,
  readyQuery,
  seedAccount,
  T0,
  taskQuery,
} from "../helpers/store.ts";

const EXAMINED_MAX = 20_000;

/** Finished tasks, the tags and types of which go by turns: every 5000th has the rare type, every one the usual tag. */
async function openReady(t: TestContext, count: number): Promise<readonly [Store, number]> {
  const store = await openTestStore(t);
  const accountId = await seedAccount(store);
  for (let first = 0; first < count; first += 500) {
    const tasks = Array.from({ length: 500 }, (_, i) =>
      newTask({ tag: "usual", type: (first + i) % 5000 === 4999 ? "rare" : "echo" }),
    );
    await store.insertTasks(newPost(accountId, tasks, { createdAt: T0 + first }));
    for (const type of ["echo", "rare"]) {
      const claimed = await store.claimTasks({ type, max: 500, now: T0 + first });
      await Promise.all(
        claimed.map((task) => store.finishTask(newFinish(task, { endedAt: T0 + first }))),
      );
    }
  }
  return [store, accountId];
}

test("lists with two filters find what passes both, by whichever comes to its end", async (t) => {
  const [store, accountId] = await openReady(t, 2 * 5000 + 500);
  for (const filter of [
    { tag: "usual", type: "rare" },
    { tag: "none", type: "echo" },
    { tag: "usual", type: "none" },
  ]) {
    const found = filter.tag === "usual" && filter.type === "rare" ? 2 : 0;
    const ready = await store.listReady(readyQuery(accountId, { ...filter, limit: 10 }));
    assert.deepEqual([ready.tasks.length, ready.next], [found, null]);
    const query = taskQuery(accountId, { ...filter, state: "completed", limit: 10 });
    const listed = await store.listTasks(query);
    assert.deepEqual([listed.tasks.length, listed.next], [found, null]);
  }
});

/** A list of so many rows of which every `every`th passes, as its turns are taken. */
function walked({ rows, every }: { readonly rows: number; readonly every: number }) {
  let turns = 0;
  const take = async ({ after, limit }: { after: number | null; limit: number }) => {
    turns++;
    const begin = after ?? 0;
    const end = Math.min(rows, begin + LIST_TURN_MAX);
    const places = Array.from({ length: end - begin }, (_, i) => begin + i + 1);
    const passing = places.filter((place) => place % every === 0);
    const taken = passing.slice(0, limit);
    const isFull = passing.length > limit;
    const next = isFull ? (taken.at(-1) ?? after) : end === rows ? null : end;
    const tasks = taken.map((place) => ({ id: String(place) }) as TaskSummary);
    return { tasks, bytes: 0, next, isFull };
  };
  return { take, turns: () => turns };
}

test("a page with several filters looks at 20,000 rows and no more, and the next one goes on there", async () => {
  const list = walked({ rows: 45_000, every: 15_000 });
  const first = await listByTurns({ after: null as number | null, limit: 10 }, list.take);
  assert.deepEqual([first.tasks.length, first.next], [1, EXAMINED_MAX]);
  assert.equal(list.turns(), EXAMINED_MAX / LIST_TURN_MAX);
  const second = await listByTurns({ after: first.next, limit: 10 }, list.take);
  assert.deepEqual([second.tasks.length, second.next], [1, 2 * EXAMINED_MAX]);
  const third = await listByTurns({ after: second.next, limit: 10 }, list.take);
  assert.deepEqual([third.tasks.length, third.next], [1, null]);
});

test("a page is full over several turns, and is no longer than it was asked for", async () => {
  const list = walked({ rows: 45_000, every: 1000 });
  const page = await listByTurns({ after: null as number | null, limit: 7 }, list.take);
  const ids = page.tasks.map(({ id }) => Number(id));
  assert.deepEqual(ids, [1000, 2000, 3000, 4000, 5000, 6000, 7000]);
  // So far was looked whether there is another.
  assert.equal(page.next, 7500);
  assert.equal(list.turns(), 4);
});

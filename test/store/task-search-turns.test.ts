import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { ANY_TASK } from "../../src/domain/task/task-search.ts";
import { ReadTurns, type ReadOwner } from "../../src/store/common/read-turns.ts";
import { SEARCH_TURN_MAX, searchByTurns } from "../../src/store/sqlite/task-search-turns.ts";
import type { TaskSearchTurn } from "../../src/store/sqlite/task-search.ts";
import type { Store, TaskSearchPage, TaskSearchQuery } from "../../src/store/store.ts";
import { newPost, newTask, openTestStore, seedAccount, T0, webhook } from "../helpers/store.ts";

const RARE_EVERY = 100;

/** A store with tasks, of which one in a hundred goes to a host of its own. */
async function openSeeded(t: TestContext, count: number): Promise<readonly [Store, number]> {
  const store = await openTestStore(t);
  const accountId = await seedAccount(store);
  for (let first = 0; first < count; first += RARE_EVERY) {
    const tasks = Array.from({ length: RARE_EVERY }, (_, i) =>
      newTask({ postback: webhook(i === 0 ? "rare.example" : "usual.example") }),
    );
    await store.insertTasks(newPost(accountId, tasks, { createdAt: T0 + first }));
  }
  return [store, accountId];
}

/** A machine on which every look at the clock finds it a second on. */
function slowDown(t: TestContext): void {
  let now = performance.now();
  t.mock.method(performance, "now", () => (now += 1000));
}

function queryOf(accountId: number, host: string): TaskSearchQuery {
  const search = { ...ANY_TASK, host };
  return { scope: accountId, search, limit: 30, after: null, examineMax: 20_000 };
}

test("a page is as long as was asked for, however slow the machine is", async (t) => {
  const [store, accountId] = await openSeeded(t, 4000);
  slowDown(t);

  const page = await store.searchTasks(queryOf(accountId, "rare.example"));

  assert.equal(page.tasks.length, 30);
  assert.notEqual(page.next, null);
});

test("a page that finds too little ends after so many rows, however slow the machine is", async (t) => {
  const [store, accountId] = await openSeeded(t, 4000);
  slowDown(t);
  const query = { ...queryOf(accountId, "rare.example"), examineMax: 2600 };

  const page = await store.searchTasks(query);

  assert.equal(page.tasks.length, 26);
  assert.equal(page.examinedUntil, T0 + 4000 - 2600);
  const rest = await store.searchTasks({ ...query, limit: 100, after: page.next });
  assert.equal(rest.tasks.length, 14);
  assert.equal(rest.next, null);
});

/** Finds nothing as far as it may look, and notes what it was asked. */
function newEmptyTurns(turns: TaskSearchTurn[] = []) {
  let seq = 1_000_000;
  async function take(turn: TaskSearchTurn): Promise<TaskSearchPage> {
    turns.push(turn);
    seq -= turn.turnMax;
    return { tasks: [], next: { createdAt: seq, seq }, examinedUntil: seq };
  }
  return { turns, take };
}

test("a search looks at a bounded number of rows in a turn, and goes on where the one before ended", async () => {
  const { turns, take } = newEmptyTurns();
  const query = { ...queryOf(1, "rare.example"), examineMax: 2 * SEARCH_TURN_MAX + 7 };

  const page = await searchByTurns(query, take);

  const [whole, end] = [SEARCH_TURN_MAX, 1_000_000 - query.examineMax];
  assert.deepEqual(
    turns.map(({ turnMax }) => turnMax),
    [whole, whole, 7],
  );
  assert.deepEqual(
    turns.map(({ after }) => after?.seq ?? null),
    [null, 1_000_000 - whole, 1_000_000 - 2 * whole],
  );
  assert.deepEqual(page, { tasks: [], next: { createdAt: end, seq: end }, examinedUntil: end });
});

test("between two turns of a search another account's read has its own", async () => {
  const readTurns = new ReadTurns();
  const begun: ReadOwner[] = [];
  const read = (
    owner: ReadOwner,
    turn: TaskSearchTurn,
    { take }: ReturnType<typeof newEmptyTurns>,
  ) =>
    readTurns.take(owner, () => {
      begun.push(owner);
      return take(turn);
    });
  const searchOf = (owner: number): Promise<TaskSearchPage> => {
    const turns = newEmptyTurns();
    return searchByTurns(queryOf(owner, "rare.example"), (turn) => read(owner, turn, turns));
  };

  const long = [1, 1, 1, 1].map(searchOf);
  const last = searchOf(2);
  await Promise.all([...long, last]);

  // Two reads are under way at a time, and both may be the first one's.
  const turnsOfOne = 20_000 / SEARCH_TURN_MAX;
  const ofOther = begun.flatMap((owner, at) => (owner === 2 ? [at] : []));
  assert.equal(ofOther.length, turnsOfOne);
  const gaps = ofOther.slice(1).map((at, i) => at - (ofOther[i] ?? 0));
  assert.ok(
    gaps.every((gap) => gap <= 3),
    begun.join(" "),
  );
});

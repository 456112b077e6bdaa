import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import { ANY_TASK } from "../../src/domain/task/task-search.ts";
import {
  LIST_TURN_MAX,
  type ListPart,
  type ListTurn,
  listByTurns,
} from "../../src/store/common/list.ts";
import { type ReadOwner, ReadTurns } from "../../src/store/common/read-turns.ts";
import { TASKS_EXAMINED_MAX, type TaskPage } from "../../src/store/store.ts";
import { openTestStore, seedAccount, taskQuery } from "../helpers/store.ts";

/** Reads of the test's making, which it ends one by one; `begun` are whose they are. */
function startTurns() {
  const turns = new ReadTurns();
  const begun: ReadOwner[] = [];
  const open: PromiseWithResolvers<void>[] = [];
  return {
    ...{ turns, begun },
    ask: (owner: ReadOwner): Promise<void> =>
      turns.take(owner, () => {
        begun.push(owner);
        const read = Promise.withResolvers<void>();
        open.push(read);
        return read.promise;
      }),
    /** Ends the oldest read that is under way, and lets the next one begin. */
    async end(): Promise<void> {
      open.shift()?.resolve();
      await turn();
      await turn();
    },
  };
}

test("a read waits for at most one read of each other owner", async () => {
  const { ask, end, begun } = startTurns();
  const all = [1, 1, 1, 1, 1, 1, 2, 2, 2, "three", null].map((owner) => ask(owner));
  assert.deepEqual(begun, [1, 1]);
  for (let i = 0; i < all.length; i++) await end();
  await Promise.all(all);
  assert.deepEqual(begun, [1, 1, 1, 2, "three", null, 1, 2, 1, 2, 1]);
});

test("the event loop turns between reads that settle immediately", async () => {
  const turns = new ReadTurns();
  let ended = 0;
  const all = Array.from({ length: 10 }, () =>
    turns.take(1, async () => {
      ended++;
    }),
  );
  for (let rounds = 1; ended < all.length; rounds++) {
    assert(ended <= 2 * rounds, `${ended} reads in ${rounds} rounds`);
    await turn();
  }
  await Promise.all(all);
});

test("a failed read passes its turn on", async () => {
  const turns = new ReadTurns();
  const fail = (): Promise<never> => Promise.reject(new Error("broken"));
  const failed = [1, 2, 3, 4].map((owner) => assert.rejects(turns.take(owner, fail), /broken/));
  const last = turns.take(5, async () => "read");
  await turns.idle();
  assert.equal(await last, "read");
  await Promise.all(failed);
  await turns.idle();
});

test("the limit of waiting reads is a thousand for each owner", async () => {
  const { turns, ask, end } = startTurns();
  const all = Array.from({ length: 1002 }, () => ask(1));
  await assert.rejects(ask(1), { name: "StoreError", kind: "overloaded" });
  all.push(ask(2));
  for (let i = 0; i < all.length; i++) await end();
  await Promise.all(all);
  await turns.idle();
});

test("endless searches of one account do not delay other accounts", async (t) => {
  const store = await openTestStore(t, { writer: "thread" });
  const [busy, other] = [await seedAccount(store, "busy"), await seedAccount(store, "other")];
  const within = { limit: 1, after: null };
  let left = 200;
  const searches = Array.from({ length: left }, async () => {
    await store.searchTasks({ ...within, scope: busy, search: ANY_TASK });
    left--;
  });
  const range = { from: 0, to: 1 };
  const others = [
    ...[null, other].map((scope) => store.searchTasks({ ...within, scope, search: ANY_TASK })),
    ...[null, other].map((scope) => store.findTraffic({ ...range, scope })),
    ...[null, other].map((scope) => store.listHostTraffic({ scope, since: 0, limit: 1 })),
    store.countWork(null),
  ];

  await Promise.all(others);
  assert(left > 150, `${left} searches were left`);
  await Promise.all(searches);
});

/** A list of so many rows of which every `every`th passes, as its turns are taken. */
function walked({ rows, every }: { readonly rows: number; readonly every: number }) {
  let turns = 0;
  const take = async ({ after, limit, turnMax }: ListTurn): Promise<ListPart<number>> => {
    turns++;
    const begin = after?.seq ?? 0;
    const end = Math.min(rows, begin + turnMax);
    const places = Array.from({ length: end - begin }, (_, i) => begin + i + 1);
    const passing = places.filter((place) => place % every === 0);
    const tasks = passing.slice(0, limit);
    const isFull = passing.length > limit;
    const reached = isFull ? (tasks.at(-1) ?? begin) : end === rows ? null : end;
    const next = reached === null ? null : { timeMs: reached, seq: reached };
    return { tasks, bytes: 0, next, isFull, examinedUntil: reached };
  };
  return { take, turns: () => turns };
}

test("a page with several filters looks at 20,000 rows and no more, and the next one goes on there", async () => {
  const list = walked({ rows: 45_000, every: 15_000 });
  const first = await listByTurns(taskQuery(1, { limit: 10 }), list.take);
  assert.deepEqual([first.tasks.length, first.next?.seq], [1, TASKS_EXAMINED_MAX]);
  assert.equal(TASKS_EXAMINED_MAX, 20_000);
  assert.equal(list.turns(), TASKS_EXAMINED_MAX / LIST_TURN_MAX);
  const second = await listByTurns(taskQuery(1, { limit: 10, after: first.next }), list.take);
  assert.deepEqual([second.tasks.length, second.next?.seq], [1, 2 * TASKS_EXAMINED_MAX]);
  const third = await listByTurns(taskQuery(1, { limit: 10, after: second.next }), list.take);
  assert.deepEqual([third.tasks.length, third.next], [1, null]);
});

test("a page is full over several turns, and is no longer than it was asked for", async () => {
  const list = walked({ rows: 45_000, every: 1000 });
  const page = await listByTurns(taskQuery(1, { limit: 7 }), list.take);
  assert.deepEqual(page.tasks, [1000, 2000, 3000, 4000, 5000, 6000, 7000]);
  // So far was looked whether there is another.
  assert.equal(page.next?.seq, 7500);
  assert.equal(list.turns(), 4);
});

/** Finds nothing as far as it may look, and notes what it was asked. */
function newEmptyTurns(turns: ListTurn[] = []) {
  let seq = 1_000_000;
  async function take(turn: ListTurn): Promise<ListPart<never>> {
    turns.push(turn);
    seq -= turn.turnMax;
    const next = { timeMs: seq, seq };
    return { tasks: [], bytes: 0, isFull: false, next, examinedUntil: seq };
  }
  return { turns, take };
}

test("between two turns of a search another account's read has its own", async () => {
  const readTurns = new ReadTurns();
  const begun: ReadOwner[] = [];
  const searchOf = (owner: number): Promise<TaskPage<never>> => {
    const { take } = newEmptyTurns();
    const read = (turn: ListTurn) =>
      readTurns.take(owner, () => {
        begun.push(owner);
        return take(turn);
      });
    return listByTurns(taskQuery(owner), read);
  };

  const long = [1, 1, 1, 1].map(searchOf);
  const last = searchOf(2);
  await Promise.all([...long, last]);

  // Two reads are under way at a time, and both may be the first one's.
  const turnsOfOne = TASKS_EXAMINED_MAX / LIST_TURN_MAX;
  const ofOther = begun.flatMap((owner, at) => (owner === 2 ? [at] : []));
  assert.equal(ofOther.length, turnsOfOne);
  const gaps = ofOther.slice(1).map((at, i) => at - (ofOther[i] ?? 0));
  assert.ok(
    gaps.every((gap) => gap <= 3),
    begun.join(" "),
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  LIST_TURN_MAX,
  listByTurns,
  type ListPart,
  type ListTurn,
} from "../../src/store/common/list.ts";
import { ReadTurns, type ReadOwner } from "../../src/store/common/read-turns.ts";
import { TASKS_EXAMINED_MAX, type TaskPage } from "../../src/store/store.ts";
import { taskQuery } from "../helpers/store.ts";

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

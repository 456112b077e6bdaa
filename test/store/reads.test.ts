import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import { schemaSql } from "../../src/assets.ts";
import { ANY_TASK } from "../../src/domain/task/task-search.ts";
import {
  LIST_TURN_MAX,
  type ListPart,
  type ListTurn,
  listByTurns,
} from "../../src/store/common/list.ts";
import { type ReadOwner, ReadTurns } from "../../src/store/common/read-turns.ts";
import type { ReadSql } from "../../src/store/postgres/machine/sql.ts";
import { turnLookUp } from "../../src/store/postgres/turn-reads.ts";
import { runOn } from "../../src/store/postgres/use-cases.ts";
import { statement } from "../../src/store/sql/statement.ts";
import { all, within } from "../../src/store/sql/use-case.ts";
import { type Connection, openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { newThreadReader } from "../../src/store/sqlite/reader.ts";
import { longReads } from "../../src/store/sqlite/reads.ts";
import { bindUseCases } from "../../src/store/sqlite/use-cases.ts";
import { TASKS_EXAMINED_MAX, type TaskPage } from "../../src/store/store.ts";
import {
  newDatabaseFile,
  newPost,
  newTask,
  newTaskId,
  openTestStore,
  pluck,
  seedAccount,
  taskQuery,
} from "../helpers/store.ts";

/** The first turn of an account's list. */
function turnOf(accountId: number): ListTurn {
  return { ...taskQuery(accountId), examineMax: 100, turnMax: 100, bytesLeft: null };
}

test("a lost thread rejects its reads, and the next read starts another thread", async (t) => {
  const file = newDatabaseFile(t);
  const reader = newThreadReader({ file });
  t.after(() => reader.close());

  // The file does not exist yet: the thread ends immediately.
  const lost = [1, 2].map((accountId) => reader.read("listTasks", turnOf(accountId)));
  for (const read of lost) {
    await assert.rejects(read, (error: Error) => {
      assert.match(String(error.cause), /cannot open the database/);
      return "kind" in error && error.kind === "failed";
    });
  }

  const store = await openTestStore(t, { file });
  const [accountId, task] = [await seedAccount(store), newTask()];
  await store.insertTasks(newPost(accountId, [task]));
  const { tasks } = await reader.read("listTasks", turnOf(accountId));
  assert.deepEqual(pluck(tasks, "id"), [task.id]);
});

test("a read that throws rejects alone, and the thread continues", async (t) => {
  const file = newDatabaseFile(t);
  await openTestStore(t, { file });
  const reader = newThreadReader({ file });
  t.after(() => reader.close());
  // @ts-expect-error: an account is a number.
  const broken = reader.read("listTasks", turnOf({}));
  await assert.rejects(broken, { name: "Error", message: /./ });
  assert.deepEqual((await reader.read("listTasks", turnOf(1))).tasks, []);
});

test("a reader may be closed before its first read, after a lost one, and twice", async (t) => {
  const reader = newThreadReader({ file: newDatabaseFile(t) });
  await reader.close();
  const lost = assert.rejects(reader.read("listTasks", turnOf(1)), { name: "StoreError" });
  await Promise.all([reader.close(), lost]);
  await reader.close();
});

// A reply of a thread arrives in a later turn of the event loop.
test("a store with a writer thread lists tasks in a thread and reads single tasks directly", async (t) => {
  const store = await openTestStore(t, { writer: "thread" });
  const accountId = await seedAccount(store);
  const key = { accountId, id: newTaskId() };
  let longReads = 0;
  const long = [store.listTasks(taskQuery(accountId)), store.findTimeline({ scope: null, ...key })];
  const ended = long.map((read) => read.then(() => longReads++));
  for (let i = 0; i < 100; i++) await store.findTask(key);
  assert.equal(longReads, 0);
  await Promise.all(ended);
});

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

// More than one read may return.
const MANY = 20_500;

/** Deliveries of ada to one host and of bob to very many hosts have failed. */
function seedMany(t: TestContext): Connection {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  connection.exec(`
    ${schemaSql}
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    INSERT INTO host_counts (account_seq, host, given_up) VALUES (1, '1.example', ${MANY});
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY})
    INSERT INTO host_counts (account_seq, host, refused) SELECT 2, i || '.example', 1 FROM n;`);
  return connection;
}

test("all failures of a host are counted, and a list with too many hosts reports more", (t) => {
  const { listHostTraffic } = longReads(seedMany(t));
  const read = (scope: number | null) => {
    const { hosts, hasMore } = listHostTraffic({ scope, since: 0, limit: 1 });
    return { hosts: pluck(hosts, "host", "givenUp"), hasMore };
  };
  // An account with few hosts is not hidden by an account with many.
  assert.deepEqual(read(1), { hosts: [["1.example", MANY]], hasMore: false });
  assert.deepEqual(read(null), { hosts: [["1.example", MANY]], hasMore: true });
  assert.equal(read(2).hasMore, true);
});

test("PostgreSQL numbers the parameters of a statement, each name once", () => {
  const { postgres } = statement("SELECT @b::int WHERE @a::int = 1 OR @b < @c_1");
  assert.equal(postgres?.text, "SELECT $1::int WHERE $2::int = 1 OR $1 < $3");
  assert.deepEqual(postgres.names, ["b", "a", "c_1"]);
});

test("a statement without a value that it names is refused", async () => {
  const sql: ReadSql = { all: async () => [], get: async () => undefined };
  await assert.rejects(runOn(sql, all(statement("SELECT @a"), { b: 1 })), /parameter a/);
});

test("a statement keeps what looks like a parameter in a literal, a quoted name or a comment", () => {
  const text = `SELECT 'a@b', "c@d", 'it''s @e' -- not @f
    /* nor
    '@g */ FROM t WHERE h = `;

  assert.equal(statement(`${text}@h`).postgres?.text, `${text}$1`);
});

test("SQLite computes no size of a row that a step does not erase", (t) => {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  // To compute the size of the third row throws.
  const sizes = statement(`
    WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n LIMIT 9)
    SELECT seq, CASE WHEN seq < 3 THEN 1500000 ELSE json('no JSON') END AS bytes FROM n`);
  const { erase } = bindUseCases(connection, { erase: () => within<{ bytes: number }>(sizes) });

  assert.deepEqual(erase(), [{ seq: 1, bytes: 1_500_000 }]);
});

test("look-ups of one turn share a statement with each key once", async () => {
  const asked: (readonly string[])[] = [];
  const lookUp = turnLookUp(async (keys) => {
    asked.push(keys);
    return keys.filter((key) => key !== "none").map((key) => ({ key }));
  });
  // Requests of one turn come in by themselves, each with its own microtasks.
  const found = ["a", "b", "a", "none"].map((key) => lookUp(key));
  await Promise.resolve();
  found.push(lookUp("b"));
  const expected = [{ key: "a" }, { key: "b" }, { key: "a" }, undefined, { key: "b" }];
  assert.deepEqual(await Promise.all(found), expected);
  assert.deepEqual(asked, [["a", "b", "none"]]);
});

test("a look-up of a later turn has its own statement", async () => {
  const answers: ((value: number) => void)[] = [];
  const lookUp = turnLookUp(async ([key = ""]) => {
    const value = await new Promise<number>((resolve) => answers.push(resolve));
    return [{ key, value }];
  });

  const first = lookUp("a");
  await new Promise(setImmediate);
  const second = lookUp("a");
  await new Promise(setImmediate);
  answers.forEach((answer, i) => answer(i));

  assert.deepEqual(await Promise.all([first, second]), [
    { key: "a", value: 0 },
    { key: "a", value: 1 },
  ]);
});

test("a statement that fails rejects the look-ups of its turn, and none of the next", async () => {
  let isLost = true;
  const lookUp = turnLookUp(async (keys) => {
    if (isLost) throw new Error("lost");
    return keys.map((key) => ({ key }));
  });
  const outcomes = await Promise.allSettled([lookUp("a"), lookUp("b")]);
  isLost = false;
  assert.deepEqual(pluck(outcomes, "status"), ["rejected", "rejected"]);
  assert.deepEqual(await lookUp("a"), { key: "a" });
});

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { schemaSql } from "../../src/assets.ts";
import * as few from "../../src/store/sql/few-tasks.ts";
import type { Statement } from "../../src/store/sql/statement.ts";
import * as lists from "../../src/store/sql/task-list.ts";
import * as sources from "../../src/store/sql/task-sources.ts";
import { FIND_TEXTS, FIND_TIMELINE } from "../../src/store/sql/timeline.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import {
  claimLanes,
  newDatabaseFile,
  newFinish,
  newPost,
  newTask,
  openTestStore,
  seedAccount,
  T0,
  webhook,
} from "../helpers/store.ts";

const RANGE = "created_at>? AND (created_at,rowid)<(?,?)";

/** A range of an account's tasks in the order of the answer, without a look at the tasks themselves. */
function range(index: string, column: string): string {
  return `SEARCH t USING COVERING INDEX ${index} (account_seq=? AND ${column}=? AND ${RANGE})`;
}

/** How SQLite says that it merges so many ranges as it reads them. */
function merged(each: string, count: number): readonly string[] {
  if (count === 1) return [each];
  const left = Math.ceil(count / 2);
  const [first, second] = [merged(each, left), merged(each, count - left)];
  return ["MERGE (UNION ALL)", "LEFT", ...first, "RIGHT", ...second];
}

/** The same of ready tasks. */
function rangeOfReady(index: string, column = ""): string {
  return `SEARCH t USING COVERING INDEX ${index} (account_seq=?${column} AND completed_at>?)`;
}

const BY_SEQ = "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)";

const LISTED = "SCAN l VIRTUAL TABLE INDEX 1:";

const SOURCES: Readonly<Record<string, readonly string[]>> = {
  states: merged(range("tasks_by_state", "state"), 6),
  state: [range("tasks_by_state", "state")],
  type: [range("tasks_by_type", "type")],
  tag: [range("tasks_by_tag", "tag")],
  ready: [rangeOfReady("tasks_ready")],
  readyByType: [rangeOfReady("tasks_ready_by_type", " AND type=?")],
  readyByTag: [rangeOfReady("tasks_ready_by_tag", " AND tag=?")],
  failed: [
    "SEARCH deliveries USING COVERING INDEX deliveries_failed (task_seq<?)",
    ...["SCAN f", BY_SEQ],
  ],
  retrying: ["SEARCH attempts USING INDEX attempts_retrying (task_seq<?)", ...["SCAN f", BY_SEQ]],
  all: ["SEARCH t USING INTEGER PRIMARY KEY (rowid<?)"],
  listed: [LISTED, BY_SEQ],
};

/** Those that are bounded within, and joined on as they are found. */
const JOINED_ON = { failed: true, retrying: true, listed: true };

const OF_DELIVERY = "attempts_by_delivery (task_seq=? AND kind=?)";

/** Each candidate is looked up by its key, and so are its deliveries and their attempts. */
const FILTER = [
  ...[BY_SEQ, "SCAN json_each VIRTUAL TABLE INDEX 1:"],
  ...["SEARCH d USING PRIMARY KEY (task_seq=?)", "SCAN json_each VIRTUAL TABLE INDEX 1:"],
  ...[`SEARCH attempts USING INDEX ${OF_DELIVERY}`],
  "SEARCH attempts USING INDEX attempts_retrying (task_seq=?)",
];

const ACCOUNTS = "SCAN a USING COVERING INDEX sqlite_autoindex_accounts_1";
const IN_TIME = "created_at>? AND created_at<?";
const JOINED = ["t", "c", "i", "r", "l", "w"];

const OTHERS: Readonly<Record<string, readonly string[]>> = {
  id: ["SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)"],
  ready: ["SCAN t USING INDEX tasks_ready"],
  readyOfAccount: ["SEARCH t USING INDEX tasks_ready (account_seq=?)"],
  waiting: ["SCAN t USING INDEX tasks_queued"],
  delayed: ["SCAN t USING INDEX tasks_delayed"],
  running: ["SCAN t USING INDEX tasks_running"],
  tag: [
    ACCOUNTS,
    `SEARCH t USING COVERING INDEX tasks_by_tag (account_seq=? AND tag=? AND ${IN_TIME})`,
  ],
  states: [
    ...[ACCOUNTS, "SCAN s VIRTUAL TABLE INDEX 1:"],
    `SEARCH t USING COVERING INDEX tasks_by_state (account_seq=? AND state=? AND ${IN_TIME})`,
  ],
  COUNT_ACCOUNTS: ["SCAN accounts USING COVERING INDEX sqlite_autoindex_accounts_1", "SCAN a"],
  COUNT_OWN: [
    "SEARCH task_counts USING PRIMARY KEY (account_seq=? AND state=?)",
    "SCAN json_each VIRTUAL TABLE INDEX 1:",
  ],
  FIND_ACCOUNT: ["SEARCH accounts USING COVERING INDEX sqlite_autoindex_accounts_1 (login=?)"],
  SELECT_SUMMARIES: [LISTED, BY_SEQ],
  SELECT_FOUND: [LISTED, BY_SEQ, "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)"],
  FIND_DELIVERIES: [
    ...["SCAN s VIRTUAL TABLE INDEX 1:", "SEARCH d USING PRIMARY KEY (task_seq=?)"],
    "SEARCH o USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    `SEARCH attempts USING COVERING INDEX ${OF_DELIVERY}`,
    "SEARCH l USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    `SEARCH attempts USING INDEX ${OF_DELIVERY}`,
    ...[`SEARCH c USING COVERING INDEX ${OF_DELIVERY}`, "SCAN (subquery-1)"],
  ],
  FIND_TIMELINE: [
    "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
    ...JOINED.slice(1).map(
      (name) =>
        `SEARCH ${name} USING INTEGER PRIMARY KEY (rowid=?)${name === "c" ? "" : " LEFT-JOIN"}`,
    ),
  ],
  FIND_TEXTS: [
    BY_SEQ,
    ...["i", "r"].map((name) => `SEARCH ${name} USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN`),
  ],
};

function isStatement(value: unknown): value is Statement {
  return typeof value === "object" && value !== null && "sqlite" in value && "postgres" in value;
}

/** The texts of the statements of a module. */
function texts(module: object): readonly (readonly [name: string, sql: string])[] {
  return Object.entries(module).flatMap(([name, of]) =>
    isStatement(of) && of.sqlite !== null ? [[name, of.sqlite] as const] : [],
  );
}

/** The steps of a plan that touch rows, without the lines that only group them. */
function planOf(connection: Connection, sql: string): readonly string[] {
  const named = Object.fromEntries([...sql.matchAll(/@(\w+)/g)].map(([, name]) => [name, 1]));
  const positional = [...sql.matchAll(/\?/g)].map(() => 1);
  const rows = connection
    .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
    .all(...positional, named);
  return rows
    .map(({ detail }) => detail)
    .filter(
      (detail) => !/^(LIST|(CORRELATED )?SCALAR) SUBQUERY|^CREATE BLOOM|^CO-ROUTINE/.test(detail),
    );
}

function assertPlans(connection: Connection): void {
  const expected = Object.entries(SOURCES);
  assert.deepEqual(Object.keys(lists.PASSING_BY).sort(), expected.map(([name]) => name).sort());
  for (const [name, source] of expected) {
    const plan = (by: Readonly<Record<string, Statement>>) =>
      planOf(connection, by[name]?.sqlite ?? "");
    const taken = [...source, ...(name in JOINED_ON ? [] : ["SCAN p"]), ...FILTER];
    assert.deepEqual(plan(lists.PASSING_BY), taken, name);
    assert.deepEqual(plan(sources.COUNT_BY).slice(0, source.length), source, name);
    const looked = plan(lists.LOOKED_AT_BY).slice(0, source.length + 1);
    assert.deepEqual(looked, ["MATERIALIZE p", ...source], name);
  }
  const others = [
    ...texts(few.LISTED_BY),
    ...[lists, sources, few, { FIND_TIMELINE, FIND_TEXTS }].flatMap(texts),
  ].map(([name, sql]) => [name, planOf(connection, sql)] as const);
  assert.deepEqual(Object.fromEntries(others), OTHERS);
}

test("a list or search seeks where it begins, and looks up each candidate by its key", (t) => {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  connection.exec(schemaSql);
  assertPlans(connection);
});

// An operator's ANALYZE gives the planner numbers, and with numbers it may prefer another way.
test("a list or search is run the same way once a file with tasks in it has been analysed", async (t) => {
  assertPlans(await openAnalysed(t));
});

async function openAnalysed(t: TestContext): Promise<Connection> {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  for (let i = 0; i < 30; i++) {
    const accountId = await seedAccount(store, `account-${i}`);
    const tags = ["a", "b", null, "c", "a"];
    const posted = tags.map((tag) => newTask({ tag, postback: webhook(`${tag}.example`) }));
    await store.insertTasks(newPost(accountId, posted));
  }
  const claimed = await store.claimTasks({ type: "echo", max: 100, now: T0 });
  await Promise.all(claimed.slice(20).map((task) => store.finishTask(newFinish(task))));
  await claimLanes(store, ["a.example"]);
  const connection = openWriter(file);
  t.after(() => connection.close());
  connection.exec("ANALYZE");
  return connection;
}

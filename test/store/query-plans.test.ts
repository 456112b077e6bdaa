import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { schemaSql } from "../../src/assets.ts";
import * as accounts from "../../src/store/sqlite/accounts.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/connection.ts";
import * as deliveries from "../../src/store/sqlite/deliveries.ts";
import * as tasks from "../../src/store/sqlite/tasks.ts";
import * as upkeep from "../../src/store/sqlite/upkeep.ts";
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

/** The statements that run for a task, a request or a tick, by name. */
const STATEMENTS: Readonly<Record<string, string>> = {
  ...statementsOf({ ...tasks, ...deliveries, ...accounts, ...upkeep }),
  ...statementsOf(prefixed("LIST_READY_BY", tasks.LIST_READY_BY)),
};

/**
 * How each of them has to be run. Seeks only: in an index that fits, or by the key. The three scans are of
 * what runs or is in flight, which the limits of the engine bound, and of a recursion's own rows.
 */
const PLANS: Readonly<Record<string, readonly string[]>> = {
  CLAIM_TASKS: [
    "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH tasks USING COVERING INDEX tasks_queued (type=?)",
    "SEARCH task_inputs USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  COLLECT_TASK: ["SEARCH tasks USING INDEX sqlite_autoindex_tasks_1 (id=?)"],
  FIND_TASK: [
    "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  FINISH_TASK: ["SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)"],
  OPEN_DELIVERIES: ["SEARCH deliveries USING PRIMARY KEY (task_seq=?)"],
  RELEASE_DELAYED: [
    "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH tasks USING COVERING INDEX tasks_delayed (start_at<?)",
  ],
  REQUEUE_ALL: ["SCAN tasks USING INDEX tasks_running"],
  LIST_READY_BY_all: ["SEARCH t USING INDEX tasks_ready (account_seq=? AND completed_at>?)"],
  LIST_READY_BY_tag: [
    "SEARCH t USING INDEX tasks_ready_by_tag (account_seq=? AND tag=? AND completed_at>?)",
  ],
  LIST_READY_BY_type: [
    "SEARCH t USING INDEX tasks_ready_by_type (account_seq=? AND type=? AND completed_at>?)",
  ],
  LIST_READY_BY_tagAndType: [
    "SEARCH t USING INDEX tasks_ready_by_tag (account_seq=? AND tag=? AND completed_at>?)",
  ],
  SELECT_DUE: [
    "SEARCH a USING INDEX attempts_due (host=? AND retry=? AND due_at<?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  START_ATTEMPT: ["SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)"],
  END_ATTEMPT: ["SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)"],
  LANE_DUE_AT: ["SEARCH attempts USING INDEX attempts_due (host=? AND retry=?)"],
  LIST_HOSTS: [
    "SEARCH attempts USING INDEX attempts_due",
    "SCAN hosts",
    "SEARCH attempts USING INDEX attempts_due (host>?)",
    "SCAN hosts",
  ],
  LIST_IN_FLIGHT: ["SCAN a USING INDEX attempts_in_flight"],
  NEXT_RETRY: ["SEARCH attempts USING INDEX attempts_due (host=? AND retry>?)"],
  SELECT_ATTEMPTS: ["SEARCH attempts USING INDEX attempts_by_delivery (task_seq=? AND kind=?)"],
  SELECT_CLAIMED: [
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH d USING PRIMARY KEY (task_seq=? AND kind=?)",
    "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH i USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
    "SEARCH r USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
  ],
  SELECT_KEY_HOLDER: [
    "SEARCH k USING INDEX sqlite_autoindex_keys_2 (hash=?)",
    "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
  ],
  ERASE_EXPIRED: [
    "SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH tasks USING COVERING INDEX tasks_expiring (expires_at>? AND expires_at<?)",
    "SEARCH deliveries USING PRIMARY KEY (task_seq=?)",
    "SEARCH task_results USING INTEGER PRIMARY KEY (rowid=?)",
    "SEARCH task_inputs USING INTEGER PRIMARY KEY (rowid=?)",
  ],
};

function statementsOf(module: object): Readonly<Record<string, string>> {
  const entries = Object.entries(module).flatMap(([name, value]) =>
    typeof value === "string" && /^\s*(SELECT|UPDATE|DELETE|WITH)\b/.test(value)
      ? [[name, value] as const]
      : [],
  );
  return Object.fromEntries(entries);
}

function prefixed(prefix: string, statements: object): object {
  return Object.fromEntries(
    Object.entries(statements).map(([name, sql]) => [`${prefix}_${name}`, sql]),
  );
}

function openEmpty(t: TestContext): Connection {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  connection.exec(schemaSql);
  return connection;
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
      (detail) => !/^(LIST|CORRELATED SCALAR) SUBQUERY|^CO-ROUTINE|^SETUP|^RECURSIVE/.test(detail),
    );
}

test("every statement that runs per task or per tick has a plan to keep to", () => {
  assert.deepEqual(Object.keys(STATEMENTS).sort(), Object.keys(PLANS).sort());
});

for (const [name, sql] of Object.entries(STATEMENTS)) {
  test(`${name} seeks and sorts by its index`, (t) => {
    assert.deepEqual(planOf(openEmpty(t), sql), PLANS[name]);
  });
}

// An operator's ANALYZE gives the planner numbers, and with numbers it may prefer another way.
test("the plans stay the same once a file with tasks in it has been analysed", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accounts = Array.from({ length: 100 }, (_, i) => seedAccount(store, `account-${i}`));
  for (const accountId of await Promise.all(accounts)) {
    const tags = ["a", "b", null, "c", "a"];
    const posted = tags.map((tag) => newTask({ tag, postback: webhook(`${tag}.example`) }));
    await store.insertTasks(newPost(accountId, posted));
  }
  const claimed = await store.claimTasks({ type: "echo", max: 400, now: T0 });
  await Promise.all(claimed.slice(50).map((task) => store.finishTask(newFinish(task))));
  await claimLanes(store, ["a.example"]);
  const connection = openWriter(file);
  t.after(() => connection.close());
  connection.exec("ANALYZE");

  const plans = Object.entries(STATEMENTS).map(([name, sql]) => [name, planOf(connection, sql)]);

  assert.deepEqual(Object.fromEntries(plans), PLANS);
});

test("erasing a task finds each row that goes with it by an index", (t) => {
  const connection = openEmpty(t);
  const cascades = connection
    .prepare<[], { child: string; columns: string }>(
      `SELECT m.name AS child, group_concat(f."from") AS columns
       FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f
       WHERE f.on_delete = 'CASCADE' GROUP BY m.name, f.id ORDER BY child`,
    )
    .all();

  assert.deepEqual(cascades, [
    { child: "attempts", columns: "task_seq,kind" },
    { child: "deliveries", columns: "task_seq" },
    { child: "task_inputs", columns: "task_seq" },
    { child: "task_results", columns: "task_seq" },
  ]);
  for (const { child, columns } of cascades) {
    const where = columns
      .split(",")
      .map((column) => `${column} = ?`)
      .join(" AND ");
    const plan = planOf(connection, `SELECT 1 FROM ${child} WHERE ${where}`);
    assert.match(plan.join(), /^SEARCH \w+ USING (INTEGER PRIMARY KEY|PRIMARY KEY|COVERING INDEX)/);
  }
});

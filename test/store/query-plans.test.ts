import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { schemaSql } from "../../src/assets.ts";
import * as accessRequests from "../../src/store/sql/access-requests.ts";
import * as accountErasure from "../../src/store/sql/account-erasure.ts";
import * as accountOverviews from "../../src/store/sql/account-overviews.ts";
import * as accounts from "../../src/store/sql/accounts.ts";
import * as audit from "../../src/store/sql/audit.ts";
import * as clock from "../../src/store/sql/clock.ts";
import * as sharedDeliveries from "../../src/store/sql/deliveries.ts";
import * as deliveryLog from "../../src/store/sql/delivery-log.ts";
import * as deliveryPauses from "../../src/store/sql/delivery-pauses.ts";
import * as fewTasks from "../../src/store/sql/few-tasks.ts";
import * as sharedQueue from "../../src/store/sql/queue.ts";
import * as redeliveryOrders from "../../src/store/sql/redelivery-orders.ts";
import * as retention from "../../src/store/sql/retention.ts";
import * as sessions from "../../src/store/sql/sessions.ts";
import * as suspensions from "../../src/store/sql/suspensions.ts";
import * as taskErasure from "../../src/store/sql/task-erasure.ts";
import * as taskList from "../../src/store/sql/task-list.ts";
import * as taskSources from "../../src/store/sql/task-sources.ts";
import * as timeline from "../../src/store/sql/timeline.ts";
import * as hostTraffic from "../../src/store/sql/traffic.ts";
import * as workCounts from "../../src/store/sql/work-counts.ts";
import * as workers from "../../src/store/sql/workers.ts";
import * as attempts from "../../src/store/sqlite/attempts.ts";
import * as counts from "../../src/store/sqlite/counts.ts";
import * as deliveries from "../../src/store/sqlite/deliveries.ts";
import * as leases from "../../src/store/sqlite/leases.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import * as posts from "../../src/store/sqlite/posts.ts";
import * as queue from "../../src/store/sqlite/queue.ts";
import * as taskClaims from "../../src/store/sqlite/task-claims.ts";
import * as taskRuns from "../../src/store/sqlite/task-runs.ts";
import * as tasks from "../../src/store/sqlite/tasks.ts";
import * as traffic from "../../src/store/sqlite/traffic.ts";
import type { Store } from "../../src/store/store.ts";
import {
  claimLanes,
  newAccessRequest,
  newDatabaseFile,
  newFinish,
  newKeyToStore,
  newLeaseClaim,
  newLeaseEnd,
  newPost,
  newTask,
  openTestStore,
  seedAccount,
  seedWorker,
  T0,
  webhook,
} from "../helpers/store.ts";

const MODULES: readonly object[] = [
  ...[tasks, taskRuns, counts, posts, traffic, hostTraffic, accountOverviews, queue, taskClaims],
  ...[leases, workers, sessions, attempts, deliveries, accounts, suspensions, taskErasure],
  ...[sharedDeliveries, deliveryLog, redeliveryOrders, retention, sharedQueue, accountErasure],
  ...[accessRequests, clock, audit, workCounts, taskList, taskSources, fewTasks, timeline],
];

/** Statements of one purpose, by name. */
const FAMILIES: Readonly<Record<string, object>> = {
  TOUCH_KEY: accounts.TOUCH_KEYS,
  TOUCH_SESSION: sessions.TOUCH_SESSIONS,
  TOUCH_WORKER: workers.TOUCH_WORKERS,
  LIST_REQUESTS: accessRequests.LIST_REQUESTS,
  LIST_ENTRIES: audit.LIST_ENTRIES,
  ACCOUNT_TASKS: accountErasure.ACCOUNT_TASKS,
  ERASE_DECIDED: retention.ERASE_DECIDED,
  ERASE_TRAFFIC: retention.ERASE_TRAFFIC,
  ERASE_MADE: retention.ERASE_MADE,
  COUNT_SCHEDULED: deliveryPauses.COUNT_SCHEDULED_OF,
  PASSING_BY: taskList.PASSING_BY,
  LOOKED_AT_BY: taskList.LOOKED_AT_BY,
  COUNT_BY: taskSources.COUNT_BY,
  LISTED_BY: fewTasks.LISTED_BY,
};

/** The statements that run for a task, a request or a tick. */
const STATEMENTS = new Map(
  [
    ...MODULES.flatMap((module) => statementsOf(module)),
    ...Object.entries(FAMILIES).flatMap(([family, statements]) =>
      statementsOf(statements).map(([name, sql]) => [`${family}_${name}`, sql] as const),
    ),
  ].toSorted(([one], [other]) => (one < other ? -1 : 1)),
);

function statementsOf(module: object): readonly (readonly [name: string, sql: string])[] {
  return Object.entries(module).flatMap(([name, value]) => {
    const text = textOf(value);
    return /^\s*(SELECT|UPDATE|DELETE|WITH)\b/.test(text) ? [[name, text] as const] : [];
  });
}

/** The text for SQLite; empty if the value is not a statement. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || !("sqlite" in value)) return "";
  return typeof value.sqlite === "string" ? value.sqlite : "";
}

/** The tables that grow with the number of tasks. */
const LARGE = /^(tasks|task_inputs|task_results|deliveries|attempts|idempotency_keys|leases)$/;

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
  const grouping =
    /^(CORRELATED )?(LIST|SCALAR) SUBQUERY|^CREATE BLOOM|^CO-ROUTINE|^SETUP|^RECURSIVE/;
  return connection
    .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
    .all(...positional, named)
    .map(({ detail }) => detail)
    .filter((detail) => !grouping.test(detail));
}

function plansOn(connection: Connection): string {
  const plans = Array.from(STATEMENTS, ([name, sql]) => [name, planOf(connection, sql)] as const);
  return plans.map(([name, plan]) => `${name}: ${plan.join("; ")}\n`).join("");
}

function assertPlans(t: TestContext, plans: string): void {
  const file = join(import.meta.dirname, "query-plans.txt");
  t.assert.fileSnapshot(plans, file, { serializers: [String] });
}

test("each statement has the plan of query-plans.txt, and none scans a large table", (t) => {
  const connection = openEmpty(t);
  for (const [name, sql] of STATEMENTS) {
    const tables = new Map(
      [...sql.matchAll(/\b(?:FROM|JOIN|UPDATE) (\w+)(?: AS (\w+))?/g)].map(
        ([, table = "", alias = table]) => [alias, table],
      ),
    );
    for (const step of planOf(connection, sql)) {
      const scanned = /^SCAN (\w+)$/.exec(step)?.[1] ?? "";
      assert.doesNotMatch(tables.get(scanned) ?? scanned, LARGE, `${name}: ${step}`);
    }
  }
  assertPlans(t, plansOn(connection));
});

// After an ANALYZE by the operator the planner has figures, which may change its choice.
test("each statement keeps its plan after an ANALYZE of a file with tasks", async (t) => {
  const file = newDatabaseFile(t);
  await seedAll(await openTestStore(t, { file }));
  const connection = openWriter(file);
  t.after(() => connection.close());
  connection.exec("ANALYZE");

  // A seek for each erased row, too.
  const erased = "traffic USING INDEX traffic_by_age (step_ms=? AND at=? AND account_seq=?)";
  const planned = "traffic USING PRIMARY KEY (account_seq=? AND step_ms=? AND at=?)";
  const plans = plansOn(connection).replaceAll(
    new RegExp(`^(ERASE_TRAFFIC_\\w+: SEARCH )${RegExp.escape(erased)}`, "gm"),
    `$1${planned}`,
  );
  assertPlans(t, plans);
});

test("an index finds each row that is erased with a task", (t) => {
  const connection = openEmpty(t);
  // delivery_pauses belongs to an account, and has few rows.
  const cascades = connection
    .prepare<[], { child: string; columns: string }>(
      `SELECT m.name AS child, group_concat(f."from") AS columns
       FROM sqlite_schema AS m JOIN pragma_foreign_key_list(m.name) AS f
       WHERE f.on_delete = 'CASCADE' AND m.name <> 'delivery_pauses' GROUP BY m.name, f.id`,
    )
    .all();
  assert.equal(cascades.length, 6);
  for (const { child, columns } of cascades) {
    const where = columns.replaceAll(",", " = 1 AND ");
    const plan = planOf(connection, `SELECT 1 FROM ${child} WHERE ${where} = 1`);
    assert.match(plan.join(), /^SEARCH \w+ USING (INTEGER PRIMARY KEY|PRIMARY KEY|COVERING INDEX)/);
  }
});

/** Accounts, tasks of each state, and many keys, workers, leases and requests that have ended. */
async function seedAll(store: Store): Promise<void> {
  for (let i = 0; i < 100; i++) {
    const accountId = await seedAccount(store, `account-${i}`);
    const tags = ["a", "b", null, "c", "a"];
    const posted = tags.map((tag) => newTask({ tag, postback: webhook(`${tag}.example`) }));
    await store.insertTasks(newPost(accountId, posted));
    const key = { ...newKeyToStore(), login: "account-0", createdAt: T0 + i, activeMax: 1000 };
    const request = newAccessRequest({ pendingMax: 1000 });
    await store.createKey(key);
    await store.insertAccessRequest(request);
    if (i < 20) continue;
    await store.revokeKey({ keyId: key.keyId, accountId: null, revokedAt: T0 + i });
    await store.denyAccessRequest({ id: request.id, decidedAt: T0 + i });
  }
  const claimed = await store.claimTasks({ type: "echo", max: 400, now: T0 });
  await Promise.all(claimed.slice(50).map((task) => store.finishTask(newFinish(task))));
  await claimLanes(store, ["a.example"]);
  for (let i = 0; i < 20; i++) {
    await seedWorker(store, `worker-${i}`);
    if (i > 0) await store.revokeWorker({ name: `worker-${i}`, revokedAt: T0 });
  }
  const leased = await store.claimLeases(newLeaseClaim(1, { max: 50 }));
  const ends = leased.slice(20).map((lease) => newLeaseEnd(lease));
  await store.endLeases({ ends, workerId: 1, now: T0 });
}

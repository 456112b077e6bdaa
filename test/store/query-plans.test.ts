import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { pathToFileURL } from "node:url";

import { schemaSql } from "../../src/assets.ts";
import { type Connection, openWriter } from "../../src/store/sqlite/machine/connection.ts";
import type { Store } from "../../src/store/store.ts";
import {
  T0,
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
  webhook,
} from "../helpers/store.ts";

const STORE = join(import.meta.dirname, "../../src/store");

/** All statements of both folders by name. A statement in a table has the name of the table too. */
const STATEMENTS = new Map<string, string>();
for (const file of globSync("{sql,sqlite}/*.ts", {
  cwd: STORE,
  exclude: ["**/*-thread.ts"],
}).toSorted()) {
  const module: object = await import(pathToFileURL(join(STORE, file)).href);
  for (const [name, value] of Object.entries(module)) {
    const members = typeof value === "object" ? Object.entries(value ?? {}) : [];
    const family = members.filter(([, member]) => typeof member === "object");
    for (const [key, each] of [["", value] as const, ...family]) {
      const text = textOf(each);
      const isWhole = /^\s*(SELECT|UPDATE|DELETE|WITH)\b/.test(text);
      if (isWhole) STATEMENTS.set(key === "" ? name : `${name}_${key}`, text);
    }
  }
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
  const names = [...STATEMENTS.keys()].toSorted();
  const plans = names.map((name) => planOf(connection, STATEMENTS.get(name) ?? "").join("; "));
  return names.map((name, place) => `${name}: ${plans[place]}\n`).join("");
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

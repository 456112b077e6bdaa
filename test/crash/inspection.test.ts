import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { inspectDatabase } from "../../scripts/crash/inspection.ts";
import { ScratchFolder } from "../../scripts/scratch-folder.ts";

const SCHEMA = readFileSync(join(import.meta.dirname, "..", "..", "schema.sql"), "utf8");

/** A database with one task, `done` in that state, and one postback with one attempt. */
function databaseWith(
  t: TestContext,
  { taskState, deliveryState }: { taskState: string; deliveryState: string },
): string {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const file = join(scratch.path, "test.db");
  const database = new Database(file);
  database.exec(SCHEMA);
  database.exec(`
    INSERT INTO accounts (seq, login, webhook_secret, created_at) VALUES (1, 'a', 's', 0);
    INSERT INTO tasks (seq, id, account_seq, state, status_code, created_at, runs, data_text)
      VALUES (1, 'done', 1, '${taskState}', 20000, 0, 2, '{}');
    INSERT INTO deliveries (task_seq, kind, url, host, state)
      VALUES (1, 'postback', 'http://h/', 'h', '${deliveryState}');
    INSERT INTO attempts (task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome)
      VALUES (1, 'postback', 1, 0, 'h', 0, 0, 1, 'interrupted');`);
  database.close();
  return file;
}

test("a database that holds every acknowledged task completed and delivered has no faults", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "delivered" });

  const inspection = inspectDatabase(file, new Set(["done"]));

  assert.deepEqual(inspection.faults, []);
  assert.equal(inspection.rerun, 1);
  assert.equal(inspection.interrupted, 1);
  assert.equal(inspection.unacknowledged, 0);
});

test("an acknowledged task that is not there is a fault", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "delivered" });

  const { faults } = inspectDatabase(file, new Set(["done", "lost"]));

  assert.deepEqual(faults, ["1 acknowledged tasks are not completed, lost for one"]);
});

test("a task that is not completed is a fault", (t) => {
  const file = databaseWith(t, { taskState: "running", deliveryState: "delivered" });

  const { faults } = inspectDatabase(file, new Set());

  assert.deepEqual(faults, ["1 tasks are not completed"]);
});

test("a delivery that is not over is a fault", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "open" });

  const { faults } = inspectDatabase(file, new Set(["done"]));

  assert.deepEqual(faults, ["1 deliveries are not over"]);
});

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";
import { inspectAnytime, inspectDatabase, type Promises } from "../../scripts/soak/inspection.ts";

const SCHEMA = readFileSync(join(import.meta.dirname, "..", "..", "schema.sql"), "utf8");

const NO_ATTEMPTS = `
  DELETE FROM attempts;
  UPDATE task_counts SET count = count - 192 WHERE state = 'bytes';`;

// Of `{}`, with what a task and its attempt take beside their texts.
const BYTES = 2 + 512 + 192;

/** A database with one task, `done` in that state, and one postback with one attempt; then what else is to be done to it. */
function databaseWith(
  t: TestContext,
  {
    taskState = "completed",
    deliveryState = "delivered",
    change = "",
  }: { taskState?: string; deliveryState?: string; change?: string },
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
    INSERT INTO task_counts (account_seq, state, count) 
      VALUES (1, '${taskState}', 1), (1, 'queued', 0), (1, 'bytes', ${BYTES});
    INSERT INTO traffic (account_seq, step_ms, at, posted, completed, cancelled)
      SELECT value, 60000, 0, 1, ${Number(taskState === "completed")}, ${Number(taskState === "cancelled")}
      FROM json_each('[0, 1]');
    INSERT INTO deliveries (task_seq, kind, url, host, state)
      VALUES (1, 'postback', 'http://h/', 'h', '${deliveryState}');
    INSERT INTO attempts
      (account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome)
      VALUES (1, 1, 'postback', 1, 0, 'h', 0, 0, 1, 'interrupted');
    ${change}`);
  database.close();
  return file;
}

/** What a daemon promised: to complete `done`, unless told otherwise. */
function promises(given: Partial<Promises> = {}): Promises {
  return { acknowledged: new Set(["done"]), cancelled: new Set(), promised: new Map(), ...given };
}

const NOTHING = promises({ acknowledged: new Set() });
const CANCELLED = promises({ acknowledged: new Set(), cancelled: new Set(["done"]) });

test("a database that holds every acknowledged task completed and delivered has no faults", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "delivered" });

  const inspection = inspectDatabase(file, promises());

  assert.deepEqual(inspection.faults, []);
  assert.equal(inspection.rerun, 1);
  assert.equal(inspection.interrupted, 1);
  assert.equal(inspection.unacknowledged, 0);
});

test("an acknowledged task that is not there is a fault", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "delivered" });

  const { faults } = inspectDatabase(file, promises({ acknowledged: new Set(["done", "lost"]) }));

  assert.deepEqual(faults, ["1 acknowledged tasks are not completed, lost for one"]);
});

test("a task that is neither completed nor cancelled is a fault", (t) => {
  const file = databaseWith(t, { taskState: "running", deliveryState: "delivered" });

  const { faults } = inspectDatabase(file, NOTHING);

  assert.deepEqual(faults, ["1 tasks are not over"]);
});

test("a delivery that is not over is a fault", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "open" });

  const { faults } = inspectDatabase(file, promises());

  assert.deepEqual(faults, ["1 deliveries are not over"]);
});

test("attempts whose numbers have gaps, whose retries are counted wrongly or that began too early are faults", (t) => {
  const second = (number: number, retry: number, due: number): string => {
    const columns =
      "account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome";
    const values = `1, 1, 'postback', ${number}, ${retry}, 'h', ${due}, 10, 20, 'delivered'`;
    return `
      INSERT INTO attempts (${columns}) VALUES (${values});
      UPDATE task_counts SET count = count + 192 WHERE state = 'bytes';
      UPDATE traffic SET first_attempts = ${Number(retry === 0)}, delivered = 1, durations_text = '[0,1]';
      INSERT INTO host_traffic (account_seq, at, host, attempts) VALUES (0, 0, 'h', 1), (1, 0, 'h', 1);`;
  };
  const faultsOf = (change: string) =>
    inspectDatabase(databaseWith(t, { change }), promises()).faults;

  assert.deepEqual(faultsOf(second(2, 0, 1)), []);
  assert.deepEqual(faultsOf(second(3, 0, 1)), [
    "1 deliveries have attempts with missing or repeated numbers",
  ]);
  // The first was interrupted, which uses up no retry.
  assert.deepEqual(faultsOf(second(2, 1, 1)), ["1 attempts count the retries before them wrongly"]);
  assert.deepEqual(faultsOf(second(2, 0, 11)), ["1 attempts were begun before their time"]);
});

test("a cancelled task that sent nothing is no fault, and no unacknowledged one", (t) => {
  const change = NO_ATTEMPTS;
  const file = databaseWith(t, { taskState: "cancelled", deliveryState: "waiting", change });

  const { faults, unacknowledged } = inspectDatabase(file, CANCELLED);

  assert.deepEqual(faults, []);
  assert.equal(unacknowledged, 0);
});

test("a cancelled task that has an attempt, or is ready, is a fault", (t) => {
  const attempted = databaseWith(t, { taskState: "cancelled", deliveryState: "waiting" });
  const change = `
    ${NO_ATTEMPTS}
    UPDATE tasks SET ready = 1;
    INSERT INTO task_counts (account_seq, state, count) VALUES (1, 'ready', 1);`;
  const ready = databaseWith(t, { taskState: "cancelled", deliveryState: "waiting", change });

  for (const file of [attempted, ready]) {
    assert.deepEqual(inspectAnytime(file, CANCELLED), [
      "1 cancelled tasks are ready or have something to send",
    ]);
  }
});

test("a cancelled task that is run all the same is a fault", (t) => {
  const file = databaseWith(t, {});

  assert.deepEqual(inspectAnytime(file, CANCELLED), [
    "1 cancelled tasks are not cancelled any more, done for one",
  ]);
});

test("a state that is counted wrongly, or not at all, is a fault", (t) => {
  const wrong = databaseWith(t, { change: "UPDATE task_counts SET count = 2 WHERE count = 1;" });
  const none = databaseWith(t, { change: "DELETE FROM task_counts;" });

  assert.deepEqual(inspectAnytime(wrong, NOTHING), ["1 states of an account are counted wrongly"]);
  assert.deepEqual(inspectAnytime(none, NOTHING), ["2 states of an account are counted wrongly"]);
});

test("a task that is to start later and is counted as one that waits is a fault", (t) => {
  const file = databaseWith(t, {
    change: `
      UPDATE tasks SET state = 'delayed';
      UPDATE traffic SET completed = 0;
      DELETE FROM task_counts;
      INSERT INTO task_counts VALUES (1, 'queued', 1), (1, 'bytes', ${BYTES});`,
  });

  const faults = ["2 states of an account are counted wrongly"];
  assert.deepEqual(inspectAnytime(file, NOTHING), faults);
});

test("a byte too many or too few of any text of a task is a fault", (t) => {
  const texts = (input: string, bytes: number) =>
    databaseWith(t, {
      change: `
        INSERT INTO task_inputs VALUES (1, '${input}');
        INSERT INTO task_results VALUES (1, '12', '345');
        UPDATE task_counts SET count = ${bytes} WHERE state = 'bytes';`,
    });

  const bytes = BYTES + 4 + 2 + 3;
  assert.deepEqual(inspectAnytime(texts('"ä"', bytes), NOTHING), []);
  for (const wrong of [texts('"ä"', bytes - 1), texts('"a"', bytes)]) {
    const faults = ["1 states of an account are counted wrongly"];
    assert.deepEqual(inspectAnytime(wrong, NOTHING), faults);
  }
});

test("what is ready, tried again or undelivered and counted wrongly is a fault; what was ever done is not counted again", (t) => {
  const word = (word: string) =>
    databaseWith(t, { change: `INSERT INTO task_counts VALUES (1, '${word}', 1);` });

  for (const wrong of ["ready", "retrying", "undelivered"]) {
    const faults = ["1 states of an account are counted wrongly"];
    assert.deepEqual(inspectAnytime(word(wrong), NOTHING), faults);
  }
  assert.deepEqual(inspectAnytime(word("ever_delivered"), NOTHING), []);
});

test("deliveries to a host that are counted wrongly, or not at all, are a fault", (t) => {
  const faultsOf = (change: string) => inspectAnytime(databaseWith(t, { change }), NOTHING);
  const count = (state: string, given: string) => `
    UPDATE deliveries SET state = '${state}';
    INSERT INTO task_counts VALUES (1, 'undelivered', 1);
    INSERT INTO host_counts (account_seq, host, given_up, refused) VALUES ${given};`;
  const retry = `
    INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at)
    VALUES (1, 1, 'postback', 2, 1, 'h', 9);
    INSERT INTO task_counts VALUES (1, 'retrying', 1);`;
  const right = "INSERT INTO host_counts (account_seq, host, retrying) VALUES (1, 'h', 1);";

  assert.deepEqual(faultsOf(count("given_up", "(1, 'h', 1, 0)")), []);
  assert.deepEqual(faultsOf(count("refused", "(1, 'h', 0, 1)")), []);
  assert.deepEqual(faultsOf(`${retry} ${right}`), []);
  const wrong = ["1 hosts of an account are counted wrongly"];
  assert.deepEqual(faultsOf(count("refused", "(1, 'h', 1, 0)")), wrong);
  assert.deepEqual(faultsOf(count("given_up", "(1, 'h', 2, 0)")), wrong);
  assert.deepEqual(faultsOf(retry), wrong);
  assert.deepEqual(faultsOf("INSERT INTO host_counts VALUES (1, 'h', 0, 0, 1);"), wrong);
});

test("traffic that is not what the log says is a fault", (t) => {
  const faultsOf = (change: string) => inspectAnytime(databaseWith(t, { change }), NOTHING);
  const columns = ["posted", "completed", "failed", "cancelled", "first_attempts", "delivered"];

  for (const change of [
    ...columns.map((column) => `UPDATE traffic SET ${column} = 7 WHERE account_seq = 0;`),
    "DELETE FROM traffic WHERE account_seq = 1;",
    "UPDATE traffic SET durations_text = '[0,1]' WHERE account_seq = 1;",
    "INSERT INTO host_traffic (account_seq, at, host, attempts) VALUES (1, 0, 'h', 1);",
  ]) {
    const faults = ["1 accounts, or all of them together, have wrong traffic"];
    assert.deepEqual(faultsOf(change), faults, change);
  }
});

test("an attempt of another account than its task is a fault", (t) => {
  const change = `
    INSERT INTO accounts (seq, login, webhook_secret, created_at) VALUES (2, 'b', 's', 0);
    UPDATE attempts SET account_seq = 2;`;

  assert.deepEqual(inspectAnytime(databaseWith(t, { change }), NOTHING), [
    "1 attempts are of another account than their task",
  ]);
});

test("an idempotency key with more or fewer tasks than were promised for it is a fault", (t) => {
  const file = databaseWith(t, { change: "UPDATE tasks SET tag = 'key-1';" });
  const faultsOf = (promised: Promises["promised"]) =>
    inspectDatabase(file, promises({ promised })).faults;

  assert.deepEqual(faultsOf(new Map([["key-1", 1]])), []);
  const message = "idempotency keys stand for too many or too few tasks";
  assert.deepEqual(faultsOf(new Map([["key-1", 2]])), [`1 ${message}`]);
  assert.deepEqual(faultsOf(new Map()), [`1 ${message}`]);
});

test("a row that refers to nothing is a fault", (t) => {
  const change =
    "PRAGMA foreign_keys = OFF; DELETE FROM tasks; DELETE FROM task_counts; DELETE FROM traffic;";
  const file = databaseWith(t, { change });

  assert.deepEqual(inspectAnytime(file, NOTHING), ["1 rows refer to rows that are not there"]);
});

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { benchInput } from "../../scripts/kit/http.ts";
import { ScratchFolder } from "../../scripts/kit/scratch.ts";
import { inspectAnytime, inspectFinished } from "../../scripts/soak/inspection.ts";
import { Ledger } from "../../scripts/soak/ledger.ts";
import { judgeFinished } from "../../scripts/soak/verdict.ts";

const SCHEMA = readFileSync(join(import.meta.dirname, "..", "..", "schema.sql"), "utf8");

const NO_ATTEMPTS = `
  DELETE FROM attempts;
  UPDATE task_counts SET count = count - 192 WHERE state = 'bytes';`;

// Of `{}`, with what a task and its attempt take beside their texts.
const BYTES = 2 + 512 + 192;

/**
 * A database with one task, `done` in that state, and one postback with one attempt; then what else is to be done to
 * it.
 */
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
    INSERT INTO tasks (seq, id, account_seq, type, state, status_code, created_at, completed_at, runs, data_text)
      VALUES (1, 'done', 1, 'echo', '${taskState}', 20000, 0, 1, 2, '{}');
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

const TASK = { key: "key", expected: { kind: "completed", result: null } } as const;

/** A daemon that promised to complete these tasks, and was killed when its first attempt was cut off. */
function judged(file: string, ids: readonly string[]) {
  const ledger = new Ledger();
  for (const id of ids) ledger.acknowledge(id, TASK);
  return judgeFinished(file, { ledger, killedAt: [1] });
}

/** A daemon that promised to cancel `done`. */
function cancelling(): Ledger {
  const ledger = new Ledger();
  ledger.acknowledge("done", TASK);
  ledger.cancel("done", { sentAt: 0, acknowledgedAt: 1 });
  return ledger;
}

const NOTHING = new Ledger();
const CANCELLED = cancelling();

test("a database that holds every acknowledged task completed and delivered has no faults", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "delivered" });

  const { faults, rerun, interrupted, unacknowledged } = judged(file, ["done"]);

  assert.deepEqual(faults, []);
  assert.equal(rerun, 1);
  assert.equal(interrupted, 1);
  assert.equal(unacknowledged, 0);
});

test("an acknowledged task that is not there is a fault", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "delivered" });

  const { faults } = judged(file, ["done", "lost"]);

  assert.deepEqual(faults, ["1 acknowledged tasks are lost, lost for one"]);
});

test("a task that nobody was told of is a fault, unless nobody could post it again", (t) => {
  const input = JSON.stringify(benchInput());
  const bytes = BYTES + 2 * input.length;
  const file = databaseWith(t, {
    change: `
      INSERT INTO task_inputs VALUES (1, '${input}');
      INSERT INTO task_results VALUES (1, '${input}', NULL);
      UPDATE task_counts SET count = ${bytes} WHERE state = 'bytes';`,
  });
  const evidence = { ledger: new Ledger(), killedAt: [1] };

  const { faults } = judgeFinished(file, evidence);
  const loaded = judgeFinished(file, { ...evidence, hasLoad: true });

  assert.deepEqual(faults, ["done stands in the database and was never acknowledged"]);
  assert.deepEqual(loaded.faults, []);
  assert.equal(loaded.unacknowledged, 1);
});

test("what was shown as completed, collected or delivered and is so no more is a fault", (t) => {
  const change = `
    UPDATE tasks SET ready = 1;
    INSERT INTO task_counts (account_seq, state, count) VALUES (1, 'ready', 1);`;
  const ready = databaseWith(t, { change });
  const open = databaseWith(t, { taskState: "running", deliveryState: "open" });
  const ledger = new Ledger();
  ledger.finished.set("done", "{}");
  ledger.collected.add("done");
  ledger.delivered.add("done-postback");

  assert.deepEqual(inspectAnytime(ready, ledger), [
    "1 tasks that were collected are ready, done for one",
  ]);
  assert.deepEqual(inspectAnytime(open, ledger), [
    "1 completed tasks are not completed any more, done for one",
    "1 deliveries that were shown as delivered are not, done-postback for one",
  ]);
});

test("a task that is neither completed nor cancelled is a fault", (t) => {
  const file = databaseWith(t, { taskState: "running", deliveryState: "delivered" });

  const faults = inspectFinished(file, NOTHING);

  assert.deepEqual(faults, ["1 tasks are not over"]);
});

test("a delivery that is not over is a fault", (t) => {
  const file = databaseWith(t, { taskState: "completed", deliveryState: "open" });

  const faults = inspectFinished(file, NOTHING);

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
  const faultsOf = (change: string) => inspectFinished(databaseWith(t, { change }), NOTHING);

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

  const { faults, unacknowledged } = judgeFinished(file, { ledger: CANCELLED, killedAt: [] });

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
  const faultsOf = (...promised: readonly (readonly [string, number])[]) => {
    const ledger = new Ledger();
    for (const [key, tasks] of promised) ledger.promised.set(key, tasks);
    return inspectFinished(file, ledger);
  };

  assert.deepEqual(faultsOf(["key-1", 1]), []);
  const message = "idempotency keys stand for too many or too few tasks";
  assert.deepEqual(faultsOf(["key-1", 2]), [`1 ${message}`]);
  assert.deepEqual(faultsOf(), [`1 ${message}`]);
});

test("a row that refers to nothing is a fault", (t) => {
  const change =
    "PRAGMA foreign_keys = OFF; DELETE FROM tasks; DELETE FROM task_counts; DELETE FROM traffic;";
  const file = databaseWith(t, { change });

  assert.deepEqual(inspectAnytime(file, NOTHING), ["1 rows refer to rows that are not there"]);
});

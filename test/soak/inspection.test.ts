import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";

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

// Of `{}`, and the overhead of a task and its attempt.
const BYTES = 2 + 512 + 192;

interface Facts {
  readonly taskState?: string;
  readonly ended?: string | null;
  readonly change?: string;
}

/** A database with the task `done` in that state, and one postback with one attempt; then changed by SQL. */
function databaseWith(t: TestContext, facts: Facts = {}): string {
  const { taskState = "completed", ended = "delivered", change = "" } = facts;
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
    INSERT INTO deliveries (task_seq, kind, url, host, ended)
      VALUES (1, 'postback', 'http://h/', 'h', ${ended === null ? "NULL" : `'${ended}'`});
    INSERT INTO attempts
      (account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome)
      VALUES (1, 1, 'postback', 1, 0, 'h', 0, 0, 1, 'interrupted');
    ${change}`);
  database.close();
  return file;
}

const TASK = { key: "key", expected: { kind: "completed", result: null } } as const;
const NOTHING = new Ledger();

/** A ledger in which these tasks are acknowledged. */
function promising(...ids: readonly string[]): Ledger {
  const ledger = new Ledger();
  for (const id of ids) ledger.acknowledge(id, TASK);
  return ledger;
}

const CANCELLED = promising("done");
CANCELLED.cancel("done", { sentAt: 0, acknowledgedAt: 1 });
const SHOWN = new Ledger();
SHOWN.finished.set("done", "{}");
SHOWN.collected.add("done");
SHOWN.delivered.add("done-postback");

function promisingKeys(...promised: readonly (readonly [string, number])[]): Ledger {
  const ledger = new Ledger();
  for (const [key, tasks] of promised) ledger.promised.set(key, tasks);
  return ledger;
}

const WAITING = { taskState: "cancelled", ended: null };
const READY = `
  UPDATE tasks SET ready = 1;
  INSERT INTO task_counts (account_seq, state, count) VALUES (1, 'ready', 1);`;

test("a database with every acknowledged task completed and delivered has no faults", (t) => {
  const evidence = { ledger: promising("done"), killedAt: [1] };
  const found = judgeFinished(databaseWith(t), evidence);
  const { faults, rerun, interrupted, unacknowledged } = found;
  assert.deepEqual([faults, rerun, interrupted, unacknowledged], [[], 1, 1, 0]);
});

test("a cancelled task without attempts is neither a fault nor unacknowledged", (t) => {
  const file = databaseWith(t, { ...WAITING, change: NO_ATTEMPTS });
  const { faults, unacknowledged } = judgeFinished(file, { ledger: CANCELLED, killedAt: [] });
  assert.deepEqual([faults, unacknowledged], [[], 0]);
});

test("an unacknowledged task is a fault, unless its input is the load's", (t) => {
  const input = JSON.stringify(benchInput());
  const change = `
    INSERT INTO task_inputs VALUES (1, '${input}');
    INSERT INTO task_results VALUES (1, '${input}', NULL);
    UPDATE task_counts SET count = ${BYTES + 2 * input.length} WHERE state = 'bytes';`;
  const file = databaseWith(t, { change });
  const evidence = { ledger: NOTHING, killedAt: [1] };

  assert.match(judgeFinished(file, evidence).faults.join(), /never acknowledged$/);
  const { faults, unacknowledged } = judgeFinished(file, { ...evidence, hasLoad: true });
  assert.deepEqual([faults, unacknowledged], [[], 1]);
});

const secondAttempt = (number: number, retry: number, due: number): string => `
  INSERT INTO attempts
    (account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome)
    VALUES (1, 1, 'postback', ${number}, ${retry}, 'h', ${due}, 10, 20, 'delivered');
  UPDATE task_counts SET count = count + 192 WHERE state = 'bytes';
  UPDATE traffic SET first_attempts = ${Number(retry === 0)}, delivered = 1, durations_text = '[0,1]';
  INSERT INTO host_traffic (account_seq, at, host, attempts) VALUES (0, 0, 'h', 1), (1, 0, 'h', 1);`;

const ONE_KEY = { change: "UPDATE tasks SET tag = 'key-1';" };
const OTHER_ACCOUNT = `
  INSERT INTO accounts (seq, login, webhook_secret, created_at) VALUES (2, 'b', 's', 0);
  UPDATE attempts SET account_seq = 2;`;

type Case = readonly [name: string, facts: Facts, faults: readonly RegExp[], ledger?: Ledger];

describe("after the end of all work", () => {
  const cases: readonly Case[] = [
    ["a lost task", {}, [/1 acknowledged .* lost/], promising("done", "lost")],
    ["a running task", { taskState: "running" }, [/1 tasks are not over/]],
    ["an open delivery", { ended: null }, [/1 deliveries are not over/]],
    ["attempts in order", { change: secondAttempt(2, 0, 1) }, []],
    ["a missing attempt", { change: secondAttempt(3, 0, 1) }, [/missing or repeated/]],
    // The first attempt was interrupted, which uses up no retry.
    ["a retry too many", { change: secondAttempt(2, 1, 1) }, [/count the retries/]],
    ["an early attempt", { change: secondAttempt(2, 0, 11) }, [/before their time/]],
    ["the tasks of a key", ONE_KEY, [], promisingKeys(["key-1", 1])],
    ["a key with too few tasks", ONE_KEY, [/1 idempotency/], promisingKeys(["key-1", 2])],
    ["a key without a promise", ONE_KEY, [/1 idempotency/]],
  ];
  for (const [name, facts, faults, ledger = NOTHING] of cases) {
    test(`${name}: ${faults.length} faults`, (t) =>
      assertFaults(inspectFinished(databaseWith(t, facts), ledger), faults));
  }
});

const texts = (input: string, bytes: number) => ({
  change: `
    INSERT INTO task_inputs VALUES (1, '${input}');
    INSERT INTO task_results VALUES (1, '12', '345');
    UPDATE task_counts SET count = ${BYTES + 4 + 2 + 3 + bytes} WHERE state = 'bytes';`,
});
const counted = (word: string) => ({ change: `INSERT INTO task_counts VALUES (1, '${word}', 1);` });
const undelivered = (state: string, counts: string) => ({
  change: `
    UPDATE deliveries SET ended = '${state}';
    INSERT INTO task_counts VALUES (1, 'undelivered', 1);
    INSERT INTO host_counts (account_seq, host, given_up, refused) VALUES (1, 'h', ${counts});`,
});
const RETRYING = `
  INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at)
  VALUES (1, 1, 'postback', 2, 1, 'h', 9);
  INSERT INTO task_counts VALUES (1, 'retrying', 1);`;
const HOST_RETRYING = "INSERT INTO host_counts (account_seq, host, retrying) VALUES (1, 'h', 1);";
const DELAYED = `
  UPDATE tasks SET state = 'delayed';
  UPDATE traffic SET completed = 0;
  DELETE FROM task_counts;
  INSERT INTO task_counts VALUES (1, 'queued', 1), (1, 'bytes', ${BYTES});`;
const NO_TASKS =
  "PRAGMA foreign_keys = OFF; DELETE FROM tasks; DELETE FROM task_counts; DELETE FROM traffic;";
const COUNTS = ["posted", "completed", "failed", "cancelled", "first_attempts", "delivered"];

const CANCELLED_DONE = /1 cancelled tasks are ready or/;
const STATES = /states of an account are counted wrongly/;
const HOSTS = /1 hosts of an account are counted wrongly/;

describe("at any time", () => {
  const cases: readonly Case[] = [
    ["a collected task that is ready", { change: READY }, [/1 .* collected are ready/], SHOWN],
    [
      "a completed task that runs again, and its delivery",
      { taskState: "running", ended: null },
      [/1 completed tasks are not/, /1 deliveries .* shown as delivered are not/],
      SHOWN,
    ],
    ["a cancelled task with an attempt", WAITING, [CANCELLED_DONE], CANCELLED],
    [
      "a cancelled task that is ready",
      { ...WAITING, change: NO_ATTEMPTS + READY },
      [CANCELLED_DONE],
      CANCELLED,
    ],
    ["a cancelled task that is run", {}, [/1 cancelled tasks are not cancelled/], CANCELLED],
    ["a wrong count", { change: "UPDATE task_counts SET count = 2 WHERE count = 1;" }, [STATES]],
    ["no counts", { change: "DELETE FROM task_counts;" }, [STATES]],
    ["a delayed task that is counted as queued", { change: DELAYED }, [STATES]],
    ["bytes as counted", texts('"ä"', 0), []],
    ["a byte too few", texts('"ä"', -1), [STATES]],
    ["a byte too many", texts('"a"', 0), [STATES]],
    ...["ready", "retrying", "undelivered"].map((word): Case => [
      `a wrong count of ${word}`,
      counted(word),
      [STATES],
    ]),
    ["a count of everything ever delivered", counted("ever_delivered"), []],
    ["a given-up delivery", undelivered("given_up", "1, 0"), []],
    ["a refused delivery", undelivered("refused", "0, 1"), []],
    ["a retry", { change: RETRYING + HOST_RETRYING }, []],
    ["a refused delivery that is counted as given up", undelivered("refused", "1, 0"), [HOSTS]],
    ["a given-up delivery that is counted twice", undelivered("given_up", "2, 0"), [HOSTS]],
    ["a retry without a count", { change: RETRYING }, [HOSTS]],
    ["a count without a retry", { change: HOST_RETRYING }, [HOSTS]],
    ...[
      ...COUNTS.map((column) => `UPDATE traffic SET ${column} = 7 WHERE account_seq = 0;`),
      "DELETE FROM traffic WHERE account_seq = 1;",
      "UPDATE traffic SET durations_text = '[0,1]' WHERE account_seq = 1;",
      "INSERT INTO host_traffic (account_seq, at, host, attempts) VALUES (1, 0, 'h', 1);",
    ].map((change): Case => [`wrong traffic by ${change}`, { change }, [/wrong traffic/]]),
    ["an attempt of another account", { change: OTHER_ACCOUNT }, [/1 attempts .* another account/]],
    ["a row without its task", { change: NO_TASKS }, [/1 rows refer/]],
  ];
  for (const [name, facts, faults, ledger = NOTHING] of cases) {
    test(`${name}: ${faults.length} faults`, (t) =>
      assertFaults(inspectAnytime(databaseWith(t, facts), ledger), faults));
  }
});

function assertFaults(found: readonly string[], expected: readonly RegExp[]): void {
  assert.equal(found.length, expected.length, found.join("\n"));
  for (const [i, fault] of expected.entries()) assert.match(found[i] ?? "", fault);
}

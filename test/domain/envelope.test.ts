import assert from "node:assert/strict";
import { test } from "node:test";

import { timeText } from "../../src/domain/clock/time.ts";
import { STATUS_TABLE, type StatusCode } from "../../src/domain/status.ts";
import {
  leasedTaskJson,
  summaryJson,
  taskEnvelope,
  taskJson,
  tasksEnvelope,
} from "../../src/domain/task/envelope.ts";
import type { Task } from "../../src/domain/task/task.ts";

const CREATED = Date.parse("2030-01-31T09:00:00.000Z");
const ID = "018e2f1c-0a00-7abc-8def-0123456789ab";

const COMPLETED: Task = {
  ...{ id: ID, state: "completed", statusCode: 20000, statusMessage: null, type: "echo" },
  ...{ createdAt: CREATED, startedAt: CREATED + 5, completedAt: CREATED + 1234 },
  ...{ expiresAt: CREATED + 1234 + 30 * 24 * 3600 * 1000, runs: 1 },
  dataText: `{"type":"echo","tag":"a \\"b\\""}`,
  inputText: `{"n":1.0,"big":12345678901234567890}`,
  resultText: `{"n":1.0,"s":"\\ud800"}`,
  errorText: null,
};

const REFUSED: Task = {
  ...{ id: ID, state: "failed", statusCode: 40506, statusMessage: "Unknown Field: 'colour'." },
  ...{ type: null, createdAt: CREATED, startedAt: null, completedAt: CREATED, runs: 0 },
  ...{ expiresAt: CREATED + 30 * 24 * 3600 * 1000, dataText: `{"colour":"red"}` },
  ...{ inputText: null, resultText: null },
  errorText: `{"message":"Unknown Field: 'colour'.","detail":{"field":"colour"}}`,
};

const QUEUED: Task = {
  ...COMPLETED,
  ...{ state: "queued", statusCode: 40602, startedAt: null, completedAt: null, expiresAt: null },
  ...{ runs: 0, dataText: "{}", inputText: "null", resultText: null },
};

// Receivers verify signatures of these bytes.
test("a completed task has exactly these bytes", () => {
  assert.equal(
    taskEnvelope(COMPLETED),
    `{"status_code":20000,"status_message":"Ok.","tasks_count":1,"tasks_error":0,"tasks":[` +
      `{"id":"${ID}","status_code":20000,"status_message":"Ok.","state":"completed","type":"echo",` +
      `"created_at":"2030-01-31T09:00:00.000Z","started_at":"2030-01-31T09:00:00.005Z",` +
      `"completed_at":"2030-01-31T09:00:01.234Z","expires_at":"2030-03-02T09:00:01.234Z",` +
      `"runs":1,"progress":null,"data":{"type":"echo","tag":"a \\"b\\"",` +
      `"input":{"n":1.0,"big":12345678901234567890}},"result":{"n":1.0,"s":"\\ud800"},"error":null}]}`,
  );
});

test("a refused task has exactly these bytes", () => {
  assert.equal(
    taskEnvelope(REFUSED),
    `{"status_code":20000,"status_message":"Ok.","tasks_count":1,"tasks_error":1,"tasks":[` +
      `{"id":"${ID}","status_code":40506,"status_message":"Unknown Field: 'colour'.",` +
      `"state":"failed","type":null,` +
      `"created_at":"2030-01-31T09:00:00.000Z","started_at":null,` +
      `"completed_at":"2030-01-31T09:00:00.000Z","expires_at":"2030-03-02T09:00:00.000Z",` +
      `"runs":0,"progress":null,"data":{"colour":"red"},"result":null,` +
      `"error":{"message":"Unknown Field: 'colour'.","detail":{"field":"colour"}}}]}`,
  );
});

test("a queued task with an input of null has exactly these bytes", () => {
  assert.equal(
    taskEnvelope(QUEUED),
    `{"status_code":20000,"status_message":"Ok.","tasks_count":1,"tasks_error":0,"tasks":[` +
      `{"id":"${ID}","status_code":40602,"status_message":"Task In Queue.","state":"queued",` +
      `"type":"echo","created_at":"2030-01-31T09:00:00.000Z","started_at":null,` +
      `"completed_at":null,"expires_at":null,"runs":0,"progress":null,` +
      `"data":{"input":null},"result":null,"error":null}]}`,
  );
});

test("a task in a list has exactly these bytes, without input, result and error", () => {
  assert.equal(
    summaryJson(COMPLETED),
    `{"id":"${ID}","status_code":20000,"status_message":"Ok.","state":"completed","type":"echo",` +
      `"created_at":"2030-01-31T09:00:00.000Z","started_at":"2030-01-31T09:00:00.005Z",` +
      `"completed_at":"2030-01-31T09:00:01.234Z","expires_at":"2030-03-02T09:00:01.234Z",` +
      `"runs":1,"progress":null,"data":{"type":"echo","tag":"a \\"b\\""}}`,
  );
});

test("task_post replaces the stored code by its own", () => {
  const text = taskJson(QUEUED, { code: 20100 });

  assert(text.includes(`"status_code":20100,"status_message":"Task Created.","state":"queued"`));
});

test("the input follows the other members of data, or is alone", () => {
  const dataOf = (dataText: string, inputText: string | null): unknown => {
    const shown: unknown = JSON.parse(taskJson({ ...QUEUED, dataText, inputText }));
    return JSON.stringify((shown as { readonly data: unknown }).data);
  };

  assert.equal(dataOf("{}", null), "{}");
  assert.equal(dataOf("{}", "1"), `{"input":1}`);
  assert.equal(dataOf(`{"tag":"{}"}`, `"}"`), `{"tag":"{}","input":"}"}`);
  assert.equal(dataOf(`{"tag":"{}"}`, null), `{"tag":"{}"}`);
});

test("a stored type and message are escaped", () => {
  const task = { ...REFUSED, type: `a"\\\u0001`, statusMessage: `Unknown Field: '"\u2028'.` };

  const [shown] = (JSON.parse(taskEnvelope(task)) as { readonly tasks: readonly Task[] }).tasks;

  assert.equal(shown?.type, task.type);
  assert(taskEnvelope(task).includes(JSON.stringify(task.statusMessage)));
});

test("an envelope counts its tasks and its errors", () => {
  const codes = Object.keys(STATUS_TABLE).map(Number) as readonly StatusCode[];

  const text = tasksEnvelope(codes.map((code) => ({ code, text: String(code) })));

  const errors = codes.filter((code) => code >= 40_000 && code !== 40_601 && code !== 40_602);
  assert.equal(
    text,
    `{"status_code":20000,"status_message":"Ok.","tasks_count":${codes.length},` +
      `"tasks_error":${errors.length},"tasks":[${codes.join(",")}]}`,
  );
});

test("an envelope may be without tasks and with fields of the operation", () => {
  assert.equal(
    tasksEnvelope([], `"next_cursor":null`),
    `{"status_code":20000,"status_message":"Ok.","tasks_count":0,"tasks_error":0,` +
      `"next_cursor":null,"tasks":[]}`,
  );
});

test("a time is written as RFC 3339 in UTC with milliseconds", () => {
  assert.equal(timeText(0), "1970-01-01T00:00:00.000Z");
  assert.equal(timeText(CREATED + 7), "2030-01-31T09:00:00.007Z");
});

test("only a running task shows progress", () => {
  const progress = { progress: 0.25, note: 'a "b" \ud800' };
  const running: Task = { ...QUEUED, state: "running", statusCode: 40601 };
  const shown = '"progress":{"progress":0.25,"note":"a \\"b\\" \\ud800"}';
  assert(taskEnvelope(running, progress).includes(shown));
  assert(summaryJson(running, { progress }).includes(shown));
  assert(taskEnvelope(running, { progress: 0, note: null }).includes('{"progress":0,"note":null}'));
  for (const task of [QUEUED, COMPLETED, REFUSED]) {
    assert.equal(taskEnvelope(task, progress), taskEnvelope(task));
    assert.equal(summaryJson(task, { progress }), summaryJson(task));
  }
});

test("a leased task contains its posted input, or null", () => {
  const leased = {
    ...{ id: ID, type: "print", tag: 'a "b"', marketplace: null, runs: 2 },
    ...{ leaseId: "lease", leaseExpiresAt: CREATED, inputText: "[1.0,-0]" },
    traceText: null,
  };
  const head = `{"id":"${ID}","type":"print","tag":"a \\"b\\"","marketplace":null`;
  const lease =
    '"lease_id":"lease","lease_expires_at":"2030-01-31T09:00:00.000Z","run":2,"traceparent":null,"tracestate":null}';
  assert.equal(leasedTaskJson(leased), `${head},"input":[1.0,-0],${lease}`);
  assert.equal(leasedTaskJson({ ...leased, inputText: null }), `${head},"input":null,${lease}`);
});

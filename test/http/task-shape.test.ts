import { test } from "node:test";

import fc from "fast-check";

import { ANSWERS } from "../../src/api/operations.ts";
import { TaskEnvelope } from "../../src/api/task.ts";
import type { StatusCode } from "../../src/domain/status.ts";
import {
  leasedTaskJson,
  summaryJson,
  taskEnvelope,
  taskJson,
  tasksEnvelope,
} from "../../src/domain/task/envelope.ts";
import { TASK_STATES, type Task } from "../../src/domain/task/task.ts";
import { Judge, wholeSchema } from "./api-document.ts";

/**
 * Tasks are written as text by hand, for speed: what is written fits the schema that the document and the types have.
 */

const judge = new Judge();
const ENVELOPE = wholeSchema(TaskEnvelope);
const PAGE = wholeSchema(ANSWERS["GET /v1/tasks"]);
const POSTED = wholeSchema(ANSWERS["POST /v1/tasks/task_post"]);
const CLAIMED = wholeSchema(ANSWERS["POST /v1/worker/claim"]);

const id = fc.uuid({ version: 7 });
const time = fc.integer({ min: 0, max: Date.parse("9999-12-31T23:59:59.999Z") });
const text = fc.string({ unit: "binary" });
const json = fc.jsonValue().map((value) => JSON.stringify(value));
const code = fc.constantFrom<StatusCode[]>(
  20000,
  20100,
  40501,
  40506,
  40601,
  40602,
  40901,
  50010,
  50401,
  50402,
);
const error = fc.record({ message: text, detail: fc.jsonValue() }).map((of) => JSON.stringify(of));
const data = fc
  .record({ tag: text, priority: fc.integer({ min: 0, max: 9 }) }, { requiredKeys: [] })
  .map((of) => JSON.stringify(of));
const progress = fc.option(
  fc.record({
    progress: fc.double({ min: 0, max: 1, noNaN: true }).map((share) => share + 0),
    note: fc.option(fc.string({ unit: "binary", maxLength: 255 })),
  }),
);

const task: fc.Arbitrary<Task> = fc.record({
  id,
  state: fc.constantFrom(...TASK_STATES),
  statusCode: code,
  statusMessage: fc.option(text),
  type: fc.option(text),
  createdAt: time,
  startedAt: fc.option(time),
  completedAt: fc.option(time),
  expiresAt: fc.option(time),
  runs: fc.nat(),
  dataText: data,
  inputText: fc.option(json),
  resultText: fc.option(json),
  errorText: fc.option(error),
});

const TRACE =
  '{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1"}';

test("the envelope of any task fits the schema of task_get", () => {
  fc.assert(
    fc.property(task, progress, (each, shown) => {
      judge.assertFits(ENVELOPE, JSON.parse(taskEnvelope(each, shown)));
    }),
  );
});

test("the response of any post fits its schema, and so does any page of tasks", () => {
  fc.assert(
    fc.property(fc.array(task, { maxLength: 3 }), progress, (tasks, shown) => {
      const whole = tasks.map((each) => ({ code: each.statusCode, text: taskJson(each) }));
      judge.assertFits(POSTED, JSON.parse(tasksEnvelope(whole)));
      const short = tasks.map((each) => {
        return { code: each.statusCode, text: summaryJson(each, { progress: shown }) };
      });
      judge.assertFits(PAGE, JSON.parse(tasksEnvelope(short, '"next_cursor":null')));
    }),
  );
});

test("any claimed task fits the schema of a claim", () => {
  const lease = fc.record({
    id,
    type: text,
    tag: fc.option(text),
    marketplace: fc.option(text),
    inputText: fc.option(json),
    leaseId: text,
    leaseExpiresAt: time,
    runs: fc.integer({ min: 1 }),
    traceText: fc.constantFrom(null, TRACE, "{}", "[", '{"traceparent":1}'),
  });
  fc.assert(
    fc.property(lease, (each) => {
      const item = { code: 20000, text: leasedTaskJson(each) } as const;
      judge.assertFits(CLAIMED, JSON.parse(tasksEnvelope([item])));
    }),
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { everyStep } from "../../src/domain/error.ts";
import {
  STATUS_TABLE,
  StatusError,
  isTaskError,
  statusMessage,
  type StatusCode,
} from "../../src/domain/status.ts";

// Code, message and HTTP status, null for codes of tasks.
const ROWS = [
  [20000, "Ok.", 200],
  [20100, "Task Created.", 200],
  [40000, "Bad Request.", 400],
  [40006, "Too Many Tasks.", 400],
  [40100, "Authentication failed.", 401],
  [40101, "API key revoked.", 401],
  [40102, "Account disabled.", 401],
  [40300, "HTTPS Required.", 403],
  [40301, "Forbidden.", 403],
  [40400, "Not Found.", 404],
  [40401, "Task Not Found.", 404],
  [40403, "Results Expired.", 410],
  [40500, "Method Not Allowed.", 405],
  [40501, "Invalid Field: 'NAME'. REASON", 400],
  [40502, "POST Data Is Empty.", 400],
  [40503, "POST Data Is Invalid.", 400],
  [40506, "Unknown Field: 'NAME'.", null],
  [40601, "Task In Progress.", null],
  [40602, "Task In Queue.", null],
  [40800, "Wait Timed Out.", 408],
  [40901, "Task Cancelled.", null],
  [40902, "Task Not Cancellable.", 409],
  [40910, "Active Key Limit Reached.", 409],
  [41300, "Payload Too Large.", 413],
  [41500, "Unsupported Media Type.", 415],
  [42200, "Idempotency-Key Reused.", 422],
  [42900, "Too Many Requests.", 429],
  [50000, "Internal Error.", 500],
  [50010, "Task Execution Failed.", null],
  [50300, "Service Unavailable.", 503],
  [50401, "Task Timed Out.", null],
  [50402, "Task Expired.", null],
  [50700, "Insufficient Storage.", 507],
] as const;

const CODES = Object.keys(STATUS_TABLE).map(Number) as readonly StatusCode[];

test("the table has the published codes, messages and HTTP statuses", () => {
  const rows = CODES.map((code) => [code, STATUS_TABLE[code].message, STATUS_TABLE[code].http]);

  assert.deepEqual(rows, ROWS);
});

test("every code from 40000 is a task's error, except 40601 and 40602", () => {
  const errors = CODES.filter(isTaskError);

  const others = [20000, 20100, 40601, 40602];
  assert.deepEqual(
    errors,
    CODES.filter((code) => !others.includes(code)),
  );
});

test("a message contains the field's name and the reason unchanged", () => {
  const blanks = { name: "tag", reason: "It is too long." };

  assert.equal(statusMessage(40501, blanks), "Invalid Field: 'tag'. It is too long.");
  assert.equal(statusMessage(40506, { name: "colour" }), "Unknown Field: 'colour'.");
  assert.equal(statusMessage(40506, { name: "colour", reason: "" }), "Unknown Field: 'colour'.");
  assert.equal(statusMessage(20000), "Ok.");
  for (const name of ["$&", "$'", "$1", "$$", "NAME", "REASON", "", "'", "REASON NAME"]) {
    const message = statusMessage(40501, { name, reason: "NAME $& REASON" });
    assert.equal(message, `Invalid Field: '${name}'. NAME $& REASON`);
  }
});

test("a StatusError has a message, an HTTP status, details and headers", () => {
  const plain = new StatusError(40401);
  const details = [{ pointer: "/0/tag", detail: "It is too long." }];
  const full = new StatusError(42900, {
    ...{ message: "Slow down.", details, headers: { "retry-after": "5" } },
  });

  assert.equal(plain.message, "Task Not Found.");
  assert.equal(plain.httpStatus, 404);
  assert.deepEqual([plain.details, plain.headers], [[], {}]);
  assert.equal(full.message, "Slow down.");
  assert.equal(full.httpStatus, 429);
  assert.deepEqual([full.details, full.headers], [details, { "retry-after": "5" }]);
  assert(full instanceof Error && full.name === "StatusError");
});

test("each step runs in order, also after a step that throws or rejects", async () => {
  const done: string[] = [];
  const error = new Error("boom");

  const all = everyStep([
    () => void done.push("a"),
    () => {
      done.push("b");
      throw error;
    },
    () => void done.push("c"),
    async () => void done.push("d"),
    () => void done.push("e"),
  ]);
  // Up to the first asynchronous step.
  assert.deepEqual(done, ["a", "b", "c", "d"]);

  await assert.rejects(all, error);
  assert.deepEqual(done, ["a", "b", "c", "d", "e"]);
});

test("several errors are thrown together", async () => {
  const [first, second] = [new Error("first"), new Error("second")];

  await assert.rejects(
    everyStep([() => Promise.reject(first), () => {}, () => Promise.reject(second)]),
    { name: "AggregateError", errors: [first, second] },
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { draftOf, EMPTY_DRAFT, postedText } from "../../src/dashboard/post/task-draft.ts";

test("a draft is posted without empty fields and with every digit of its input", () => {
  const draft = { ...EMPTY_DRAFT, type: "echo", input: '{"n": 9007199254740993.10}' };

  assert.equal(postedText(draft), '{"type":"echo","input":{"n": 9007199254740993.10}}');
});

test("a draft's priority is posted as a number, and its start in UTC", () => {
  const draft = { ...EMPTY_DRAFT, priority: "9", start_at: "2030-01-31T09:00", tag: 'a "b"' };

  assert.deepEqual(JSON.parse(postedText(draft)), {
    tag: 'a "b"',
    priority: 9,
    start_at: new Date(2030, 0, 31, 9).toISOString(),
  });
});

test("a task that is posted again keeps every field except its start", () => {
  const data = {
    ...{ type: "echo", tag: "t", marketplace: "us", priority: 3 },
    ...{ postback_url: "https://a.example/", pingback_url: "https://b.example/?id=$id" },
  };

  const draft = draftOf({ ...data, start_at: "2030-01-31T09:00:00.000Z" }, "[1]");

  assert.deepEqual(JSON.parse(postedText(draft)), { ...data, input: [1] });
});

test("a refused task is posted again without invalid fields", () => {
  const draft = draftOf({ type: ["echo"], tag: null, priority: "high", unknown: 1 }, "");

  assert.deepEqual(draft, EMPTY_DRAFT);
});

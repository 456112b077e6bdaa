import assert from "node:assert/strict";
import { describe, test } from "node:test";

import fc from "fast-check";

import type { Timeline } from "../../src/api/timeline.ts";
import { findJsonFault } from "../../src/dashboard/post/json-fault.ts";
import { EMPTY_DRAFT, draftOf, postedText } from "../../src/dashboard/post/task-draft.ts";
import {
  isList,
  isObject,
  jsonText,
  memberOf,
  parseJsonSource,
} from "../../src/dashboard/task/json-source.ts";
import { leftOf, rowsOf, ticksOf, viewOf, viewsOf } from "../../src/dashboard/task/timeline-row.ts";

const FAULTS: readonly (readonly [text: string, line: number, column: number, expected: string])[] =
  [
    ["", 1, 1, "a value"],
    ["  ", 1, 3, "a value"],
    ["{", 1, 2, "a name in double quotes, or }"],
    ['{\n  "a": 1,\n}', 3, 1, "a name in double quotes"],
    ['{"a" 1}', 1, 6, "a colon"],
    ['{"a":}', 1, 6, "a value"],
    ['{"a":1 "b":2}', 1, 8, "a comma or }"],
    ["[1 2]", 1, 4, "a comma or ]"],
    ["[1,]", 1, 4, "a value"],
    ["[,1]", 1, 2, "a value or ]"],
    ["[1}", 1, 3, "a comma or ]"],
    ["{'a': 1}", 1, 2, "a name in double quotes, or }"],
    ["1 2", 1, 3, "nothing more"],
    ['1"', 1, 2, "nothing more"],
    ["01", 1, 2, "nothing more"],
    ["-", 1, 1, "a value"],
    ["[tru]", 1, 2, "a value or ]"],
    ['"😀" x', 1, 5, "nothing more"],
    [
      '["a\n"]',
      1,
      4,
      String.raw`the string's closing quote; line breaks and tabs in it are written \n and \t`,
    ],
    [String.raw`["a\x"]`, 1, 4, String.raw`an escape such as \n, \" or \\`],
  ];

test("a fault has its line, its column and the expected token", () => {
  for (const [text, line, column, expected] of FAULTS) {
    assert.deepEqual(findJsonFault(text), { line, column, expected }, text);
  }
});

test("JSON has no fault, and truncated JSON has one", () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (text, cut) => {
      assert.equal(findJsonFault(text), null);
      const part = text.slice(0, cut % text.length);
      const isJson = ((): boolean => {
        try {
          JSON.parse(part);
          return true;
        } catch {
          return false;
        }
      })();
      assert.equal(findJsonFault(part) === null, isJson);
    }),
  );
});

test("a fault is at the first character that cannot continue the JSON", () => {
  const characters = fc.constantFrom(...'[]{}:,"\\ 1-.e\nau0');
  fc.assert(
    fc.property(fc.string({ unit: characters, maxLength: 12 }), (text) => {
      const fault = findJsonFault(text);
      if (fault === null) return;
      const at = placeOf(text, fault);
      assert(at >= 0 && at <= text.length);
      // The text before the fault can still become JSON.
      const before = findJsonFault(`${text.slice(0, at)}`);
      assert(before === null || placeOf(text, before) === at, JSON.stringify(text));
    }),
  );
});

function placeOf(text: string, { line, column }: { line: number; column: number }): number {
  const lines = text.split("\n").slice(0, line - 1);
  return lines.join("\n").length + (line > 1 ? 1 : 0) + column - 1;
}

test("a fault at 200,000 levels or after a long string is found", () => {
  const deep = "[".repeat(200_000);
  assert.equal(findJsonFault(deep)?.column, 200_001);
  const long = `"${String.raw`a\n`.repeat(200_000)}`;
  assert.equal(findJsonFault(long)?.column, 600_002);
});

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

describe("displayed JSON", () => {
  test("keeps every digit of its numbers", () => {
    const numbers = [
      "1.50",
      "9007199254740993",
      "1e400",
      "-0",
      "0.1E-7",
      "12345678901234567890.12",
    ];
    const value = parseJsonSource(`[${numbers.join(",")}]`);

    assert(isList(value));
    assert.deepEqual(
      value.map((item) => jsonText(item)),
      numbers,
    );
  });

  test("is copied as the same document", () => {
    const text = '{"a":[1,{"b":null}],"":"\\u202e\\u0000","t":true,"e":{},"l":[]}';
    const value = parseJsonSource(text);

    assert(value !== undefined);
    assert.deepEqual(JSON.parse(jsonText(value)), JSON.parse(text));
  });

  test("has names of Object.prototype as own members alone", () => {
    const value = parseJsonSource('{"__proto__": 1, "constructor": {"toString": 2}}');

    assert(isObject(value));
    assert.deepEqual(Object.keys(value), ["__proto__", "constructor"]);
    assert.equal(memberOf(value, "hasOwnProperty"), undefined);
    assert.equal(memberOf(memberOf(value, "constructor"), "valueOf"), undefined);
  });

  test("is undefined for invalid and very deep text", () => {
    assert.equal(parseJsonSource("{"), undefined);
    assert.equal(parseJsonSource("[".repeat(100_000) + "]".repeat(100_000)), undefined);
  });
});

const MINUTE = 60_000;

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

interface Times {
  readonly due: number;
  readonly start: number | null;
  readonly end: number | null;
}

/** The fields of an attempt that its row reads. */
function attemptOf(number: number, { due, start, end }: Times) {
  return {
    ...{ number, due_at: new Date(due).toISOString(), started_at: timeOf(start) },
    ...{ ended_at: timeOf(end), outcome: end === null ? null : "failed" },
    ...{ http_status: null, error: null },
  };
}

function deliveryOf(attempts: readonly ReturnType<typeof attemptOf>[]) {
  return { kind: "postback", is_paused: false, attempts };
}

/** The fields of a timeline that its rows read. */
function timelineOf(
  { started, completed }: Readonly<Record<"started" | "completed", number | null>>,
  deliveries: readonly ReturnType<typeof deliveryOf>[] = [],
): Timeline {
  const times = { started_at: timeOf(started), completed_at: timeOf(completed) };
  const task = { created_at: new Date(0).toISOString(), state: "completed", runs: 1, ...times };
  const run = { by: { kind: "worker", name: "gpu-1" } };
  return { task, run, deliveries } as unknown as Timeline;
}

describe("the rows of a timeline", () => {
  test("contain queued, run, attempts and the waits between them", () => {
    const delivery = deliveryOf([
      attemptOf(1, { due: 300, start: 310, end: 400 }),
      attemptOf(2, { due: MINUTE, start: MINUTE, end: MINUTE + 50 }),
      attemptOf(3, { due: 6 * MINUTE, start: null, end: null }),
    ]);
    const [task, webhook] = rowsOf(timelineOf({ started: 100, completed: 300 }, [delivery]), 0);

    assert.deepEqual(
      task?.marks.map(({ kind, from, to }) => [kind, from, to]),
      [
        ["queued", 0, 100],
        ["run", 100, 300],
      ],
    );
    assert.deepEqual(
      webhook?.marks.map(({ kind, from, to }) => [kind, from, to]),
      [
        ["attempt", 310, 400],
        ["wait", 400, MINUTE],
        ["attempt", MINUTE, MINUTE + 50],
        ["wait", MINUTE + 50, 6 * MINUTE],
        ["next", 6 * MINUTE, 6 * MINUTE],
      ],
    );
    assert.match(task?.marks[1]?.title ?? "", /by worker gpu-1/);
  });

  test("have no wait before a new series", () => {
    const delivery = deliveryOf([
      attemptOf(4, { due: 0, start: 0, end: 10 }),
      attemptOf(1, { due: MINUTE, start: MINUTE, end: MINUTE + 1 }),
    ]);
    const rows = rowsOf(timelineOf({ started: 0, completed: 0 }, [delivery]), 0);
    assert.deepEqual(
      rows[1]?.marks.map(({ kind }) => kind),
      ["attempt", "attempt"],
    );
  });

  test("grow with the clock while a task or an attempt is open", () => {
    const [queued] = rowsOf(timelineOf({ started: null, completed: null }), 5000);
    assert.deepEqual(
      queued?.marks.map(({ kind, to }) => [kind, to]),
      [["queued", 5000]],
    );

    const [running] = rowsOf(timelineOf({ started: 1000, completed: null }), 5000);
    assert.equal(running?.marks[1]?.to, 5000);

    const flight = deliveryOf([attemptOf(1, { due: 2000, start: 2000, end: null })]);
    const rows = rowsOf(timelineOf({ started: 0, completed: 2000 }, [flight]), 5000);
    assert.equal(rows[1]?.marks[0]?.to, 5000);
  });

  test("never end before they start, for any clock", () => {
    const flight = deliveryOf([attemptOf(1, { due: 2000, start: 2000, end: null })]);
    const rows = rowsOf(timelineOf({ started: 3000, completed: null }, [flight]), -1);
    for (const { from, to } of rows.flatMap((row) => row.marks)) assert(to >= from);
  });
});

describe("the views of a timeline", () => {
  test("include future attempts in the whole view alone", () => {
    const delivery = deliveryOf([
      attemptOf(1, { due: 300, start: 310, end: 400 }),
      attemptOf(2, { due: MINUTE, start: null, end: null }),
    ]);
    const rows = rowsOf(timelineOf({ started: 100, completed: 300 }, [delivery]), 0);
    const views = viewsOf(rows, "postback-0");

    assert.deepEqual([...views.keys()], ["whole", "run", "attempts", "attempt"]);
    const whole = views.get("whole");
    const attempts = views.get("attempts");
    assert(whole !== undefined && attempts !== undefined);
    assert(whole.from <= 0 && whole.to > MINUTE);
    assert(attempts.from < 310 && attempts.from > 300 && attempts.to < 1000);
  });
});

describe("the axis of a timeline", () => {
  test("has a few round times from zero, for any span", () => {
    for (const span of [0, 1, 17, 999, 61_000, 21 * MINUTE, 3 * 86_400_000, 400 * 86_400_000]) {
      const view = viewOf(1_000_000, 1_000_000 + span);
      const ticks = ticksOf(view, 7);

      assert(ticks.length >= 2 && ticks.length <= 8, `${span}: ${ticks.length}`);
      assert.equal(ticks[0]?.afterMs, 0);
      for (const { left, afterMs } of ticks) {
        assert(left >= 0 && left <= 100);
        assert(Math.abs(left - leftOf(view.zero + afterMs, view)) < 1e-9);
      }
    }
  });
});

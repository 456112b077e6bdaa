import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { Timeline, TimelineAttempt, TimelineDelivery } from "../../src/api/timeline.ts";
import { leftOf, rowsOf, ticksOf, viewOf, viewsOf } from "../../src/dashboard/task/timeline-row.ts";

const MINUTE = 60_000;

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

interface Times {
  readonly due: number;
  readonly start: number | null;
  readonly end: number | null;
}

function attemptOf(number: number, { due, start, end }: Times): TimelineAttempt {
  return {
    ...{ number, due_at: new Date(due).toISOString(), started_at: timeOf(start) },
    ...{ ended_at: timeOf(end), outcome: end === null ? null : "failed", http_status: null },
    ...{ error: null, address: null, response_excerpt: null, refusal: null, explanation: "" },
    phases: { dns_ms: null, connect_ms: null, tls_ms: null, first_byte_ms: null },
    ...{ retry_after: null, request_headers: [] },
  };
}

function deliveryOf(attempts: readonly TimelineAttempt[]): TimelineDelivery {
  const sent = { target: "/", headers: [], body: { bytes: 0, text: "" } };
  return {
    ...{ delivery_id: "x-postback", kind: "postback", url: "https://example.com/" },
    ...{ host: "example.com", state: "scheduled", explanation: "", next_attempt_at: null },
    ...{ is_paused: false, attempts },
    request: { method: "POST", ...sent, message: "body", signature: "", signature_next: null },
  };
}

function timelineOf(
  times: { readonly started: number | null; readonly completed: number | null },
  deliveries: readonly TimelineDelivery[] = [],
): Timeline {
  return {
    task: {
      ...{ id: "x", login: "alice", state: "completed", status_code: 20000, status_message: "" },
      ...{ type: "echo", created_at: new Date(0).toISOString(), expires_at: null, runs: 1 },
      ...{ started_at: timeOf(times.started), completed_at: timeOf(times.completed) },
      ...{ progress: null, data: {}, error: null, ready: false },
      ...{ input_bytes: null, result_bytes: null },
    },
    run: { by: { kind: "worker", name: "gpu-1" }, lease_expires_at: null },
    explanation: null,
    deliveries,
    time: new Date(0).toISOString(),
  };
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

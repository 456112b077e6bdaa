import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { FoundTask } from "../../src/api/search.ts";
import { followPage, freshPage, type TaskPage } from "../../src/dashboard/tasks/task-page.ts";

/** A task created in that second. */
function rowOf(second: number, state: FoundTask["state"] = "queued"): FoundTask {
  const created = new Date(second * 1000).toISOString();
  return {
    ...{ id: `task-${second}`, login: "alice", state, status_code: 40602, status_message: "" },
    ...{ type: "echo", tag: null, priority: 0, runs: 0, started_at: null, completed_at: null },
    ...{ created_at: created, start_at: null, progress: null, ready: false, deliveries: [] },
  };
}

function pageOf(rows: readonly FoundTask[], next: string | null = null): TaskPage {
  return { rows, next, examinedUntil: null };
}

function idsOf(rows: readonly FoundTask[]): readonly string[] {
  return rows.map(({ id }) => id);
}

const SHOWN = freshPage(pageOf([rowOf(30), rowOf(20), rowOf(10)], "older"));

describe("a page of tasks that is read", () => {
  test("keeps its rows in place, updated, while new ones wait", () => {
    const now = pageOf([rowOf(50), rowOf(40), rowOf(30, "running"), rowOf(20), rowOf(10)], "other");

    const page = followPage(SHOWN, now);

    assert.deepEqual(idsOf(page.rows), ["task-30", "task-20", "task-10"]);
    assert.equal(page.rows[0]?.state, "running");
    assert.deepEqual(idsOf(page.arrived), ["task-50", "task-40"]);
    assert.equal(page.next, "older");
  });

  test("lets a new task between the shown ones wait", () => {
    const now = pageOf([rowOf(30), rowOf(25), rowOf(20), rowOf(10)]);
    assert.deepEqual(idsOf(followPage(SHOWN, now).arrived), ["task-25"]);
  });

  test("does not count older tasks as new", () => {
    const now = pageOf([rowOf(30), rowOf(20), rowOf(10), rowOf(5)]);
    assert.deepEqual(followPage(SHOWN, now).arrived, []);
  });

  test("keeps and marks rows that the search no longer finds", () => {
    const page = followPage(SHOWN, pageOf([rowOf(30), rowOf(10)], "older"));

    assert.deepEqual(idsOf(page.rows), idsOf(SHOWN.rows));
    assert.deepEqual([...page.gone], ["task-20"]);
  });

  test("does not mark rows below the new page", () => {
    const page = followPage(SHOWN, pageOf([rowOf(50), rowOf(40), rowOf(30)], "older"));
    assert.equal(page.gone.size, 0);
  });

  test("does not mark rows after a partial search", () => {
    assert.equal(followPage(SHOWN, pageOf([], "older")).gone.size, 0);
  });

  test("shows the first tasks immediately", () => {
    const empty = freshPage(pageOf([]));
    const page = followPage(empty, pageOf([rowOf(1)]));

    assert.deepEqual(idsOf(page.rows), ["task-1"]);
    assert.deepEqual(page.arrived, []);
  });
});

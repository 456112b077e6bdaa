import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { FoundTask } from "../../src/api/search.ts";
import { followPage, freshPage, type TaskPage } from "../../src/dashboard/tasks/task-page.ts";

/** A task made in that second. */
function rowOf(second: number, state: FoundTask["state"] = "queued"): FoundTask {
  return {
    id: `task-${second}`,
    login: "alice",
    state,
    status_code: 40602,
    status_message: "",
    type: "echo",
    tag: null,
    priority: 0,
    runs: 0,
    started_at: null,
    completed_at: null,
    created_at: new Date(second * 1000).toISOString(),
    start_at: null,
    progress: null,
    ready: false,
    deliveries: [],
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
  test("keeps its rows in their places, as they are now, while new ones wait", () => {
    const now = pageOf([rowOf(50), rowOf(40), rowOf(30, "running"), rowOf(20), rowOf(10)], "other");

    const page = followPage(SHOWN, now);

    assert.deepEqual(idsOf(page.rows), ["task-30", "task-20", "task-10"]);
    assert.equal(page.rows[0]?.state, "running");
    assert.deepEqual(idsOf(page.arrived), ["task-50", "task-40"]);
    // What is older begins where the page that is read ends.
    assert.equal(page.next, "older");
  });

  test("lets a task wait that is found now and lies between those that are shown", () => {
    const now = pageOf([rowOf(30), rowOf(25), rowOf(20), rowOf(10)]);
    assert.deepEqual(idsOf(followPage(SHOWN, now).arrived), ["task-25"]);
  });

  test("counts older tasks that it did not show as no new ones", () => {
    const now = pageOf([rowOf(30), rowOf(20), rowOf(10), rowOf(5)]);
    assert.deepEqual(followPage(SHOWN, now).arrived, []);
  });

  test("marks those that the search does not find any more, and keeps them", () => {
    const page = followPage(SHOWN, pageOf([rowOf(30), rowOf(10)], "older"));

    assert.deepEqual(idsOf(page.rows), idsOf(SHOWN.rows));
    assert.deepEqual([...page.gone], ["task-20"]);
  });

  test("says nothing of tasks that lie below what was read", () => {
    const page = followPage(SHOWN, pageOf([rowOf(50), rowOf(40), rowOf(30)], "older"));
    assert.equal(page.gone.size, 0);
  });

  test("says nothing where the search looked at a part and found nothing yet", () => {
    assert.equal(followPage(SHOWN, pageOf([], "older")).gone.size, 0);
  });

  test("shows the first tasks at once where there were none", () => {
    const empty = freshPage(pageOf([]));
    const page = followPage(empty, pageOf([rowOf(1)]));

    assert.deepEqual(idsOf(page.rows), ["task-1"]);
    assert.deepEqual(page.arrived, []);
  });
});

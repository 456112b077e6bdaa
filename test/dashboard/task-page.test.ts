import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { FoundTask } from "../../src/api/search.ts";
import { KeptAnswers } from "../../src/dashboard/shell/kept-answers.ts";
import {
  type TaskPage,
  followPage,
  freshPage,
  listedIn,
  searchWords,
  toggled,
  withoutWord,
  withExactDays,
} from "../../src/dashboard/tasks/task-page.ts";
import { parseTaskSearch } from "../../src/domain/task/task-search.ts";

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

describe("the filters of the task list", () => {
  test("add a value to a search, remove it, and keep the other words", () => {
    const q = 'tag:"a \\" b state:failed" after:2h';

    const failed = toggled(q, "state", "failed");
    const both = toggled(failed, "state", "queued");

    assert.equal(failed, `state:failed ${q}`);
    assert.equal(both, `state:failed,queued ${q}`);
    assert.equal(toggled(toggled(both, "state", "failed"), "state", "queued"), q);
  });

  test("recognise a word in capitals and in quotes", () => {
    assert.deepEqual(listedIn('STATE:"Failed,ready"', "state"), ["failed", "ready"]);
    assert.equal(toggled("State:FAILED", "state", "failed"), "");
  });

  test("ignore words with the same prefix", () => {
    assert.deepEqual(listedIn("states:failed tag:state:failed", "state"), []);
  });

  test("keep all other words of hostile text", () => {
    const hostile = ['"', "tag:", '""', '\\"', ":", "a:b", "state:", "\u202e", "😀", 'tag:"a b'];
    for (const q of hostile) {
      const words = searchWords(toggled(q, "state", "failed"));
      assert.equal(words[0], "state:failed", q);
      assert.deepEqual(words.slice(1), q === "state:" ? [] : searchWords(q), q);
    }
  });

  test("remove one of several equal words", () => {
    assert.equal(withoutWord('a "b c" a', 0), '"b c" a');
    assert.equal(withoutWord('a "b c" a', 1), "a a");
  });

  test("return valid searches", () => {
    const parsed = parseTaskSearch(toggled('tag:"x y"', "delivery", "given_up"), 0);
    assert("search" in parsed);
    assert.deepEqual(parsed.search.deliveries, ["given_up"]);
    assert.equal(parsed.search.tag, "x y");
  });
});

function response(text: string, tag?: string, status = 200): Response {
  return new Response(text, { status, headers: tag === undefined ? {} : { ETag: tag } });
}

function notModified(): Response {
  return new Response(null, { status: 304 });
}

test("a 304 returns the kept text", async () => {
  const kept = new KeptAnswers();
  assert.equal(kept.tagOf("a"), null);

  assert.equal(await kept.textOf("a", response("one", '"1"')), "one");
  assert.equal(kept.tagOf("a"), '"1"');
  assert.equal(await kept.textOf("a", notModified()), "one");
  assert.equal(await kept.textOf("a", response("two", '"2"')), "two");
  assert.equal(await kept.textOf("a", notModified()), "two");
});

test("a refusal, a response without ETag and a long text are not kept", async () => {
  const kept = new KeptAnswers();
  await kept.textOf("a", response("one", '"1"'));

  await kept.textOf("a", response("no", '"2"', 403));
  await kept.textOf("b", response("untagged"));
  await kept.textOf("c", response("a".repeat(600_000), '"3"'));

  for (const asked of ["a", "b", "c"]) assert.equal(kept.tagOf(asked), null);
});

test("sixteen responses are kept, and none after forget", async () => {
  const kept = new KeptAnswers();
  const names = Array.from({ length: 17 }, (_, index) => `response ${index}`);

  for (const name of names) await kept.textOf(name, response(name, `"${name}"`));

  assert.deepEqual(
    names.filter((name) => kept.tagOf(name) !== null),
    names.slice(1),
  );
  kept.forget();
  assert.equal(kept.tagOf("response 16"), null);
});

const midnight = (year: number, month: number, day: number): string =>
  new Date(year, month - 1, day).toISOString();

test("a search is sent with its days as exact times, and its other words unchanged", () => {
  for (const [written, sent] of [
    ["after:2030-01-31", `after:${midnight(2030, 1, 31)}`],
    ['Before:"2030-01-31" tag:"a b"', `Before:${midnight(2030, 1, 31)} tag:"a b"`],
    ["state:failed after:2h", "state:failed after:2h"],
    ["after:2030-02-30", "after:2030-02-30"],
    ["after:2030-1-31", "after:2030-1-31"],
    ['tag:"x after:2030-01-31"', 'tag:"x after:2030-01-31"'],
    ["after:2030-01-31T09:00:00Z  x", "after:2030-01-31T09:00:00Z  x"],
  ] as const) {
    assert.equal(withExactDays(written), sent);
  }
});

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import {
  listedIn,
  searchWords,
  toggled,
  withoutWord,
} from "../../src/dashboard/tasks/task-page.ts";
import { parseTaskSearch } from "../../src/domain/task/task-search.ts";

describe("the filters of the task list", () => {
  test("add a value to a search and take it out again, and leave the other words as they are", () => {
    const q = 'tag:"a \\" b state:failed" after:2h';

    const failed = toggled(q, "state", "failed");
    const both = toggled(failed, "state", "queued");

    assert.equal(failed, `state:failed ${q}`);
    assert.equal(both, `state:failed,queued ${q}`);
    assert.equal(toggled(toggled(both, "state", "failed"), "state", "queued"), q);
  });

  test("know a word in capitals and in quotes", () => {
    assert.deepEqual(listedIn('STATE:"Failed,ready"', "state"), ["failed", "ready"]);
    assert.equal(toggled("State:FAILED", "state", "failed"), "");
  });

  test("take words that begin alike for others", () => {
    assert.deepEqual(listedIn("states:failed tag:state:failed", "state"), []);
  });

  test("make of whatever was written a search with the same other words", () => {
    const hostile = ['"', "tag:", '""', '\\"', ":", "a:b", "state:", "\u202e", "😀", 'tag:"a b'];
    for (const q of hostile) {
      const words = searchWords(toggled(q, "state", "failed"));
      assert.equal(words[0], "state:failed", q);
      assert.deepEqual(words.slice(1), q === "state:" ? [] : searchWords(q), q);
    }
  });

  test("take out one word of several that are alike", () => {
    assert.equal(withoutWord('a "b c" a', 0), '"b c" a');
    assert.equal(withoutWord('a "b c" a', 1), "a a");
  });

  test("make searches that can be read", () => {
    const parsed = parseTaskSearch(toggled('tag:"x y"', "delivery", "given_up"), 0);
    assert("search" in parsed);
    assert.deepEqual(parsed.search.deliveries, ["given_up"]);
    assert.equal(parsed.search.tag, "x y");
  });
});

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

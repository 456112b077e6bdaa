import assert from "node:assert/strict";
import { test } from "node:test";

import { withProgress } from "../../src/cli/terminal.ts";
import {
  progressText,
  progressTexts,
  type TellProgress,
  type WorkProgress,
} from "../../src/domain/log.ts";

test("progress is how many are done, their rate, and the time that the rest takes", () => {
  const tasks = { part: "tasks", done: 120_000, of: 1_000_000 };

  assert.equal(progressText(tasks, 999), "tasks: 120,000 of 1,000,000");
  assert.equal(progressText(tasks, 2400), "tasks: 120,000 of 1,000,000, 50,000/s, 18 s left");
  assert.equal(progressText(tasks, 120_000), "tasks: 120,000 of 1,000,000, 1,000/s, 15 min left");
  assert.equal(
    progressText({ ...tasks, done: 1_000_000 }, 10_000),
    "tasks: 1,000,000 of 1,000,000, 100,000/s",
  );
});

test("each part has a rate of its own, from the end of the one before", () => {
  let now = 0;
  const textOf = progressTexts(() => now);

  now = 10_000;
  assert.equal(textOf({ part: "keys", done: 10, of: 10 }), "keys: 10 of 10, 1/s");
  now = 12_000;
  assert.equal(
    textOf({ part: "tasks", done: 1000, of: 3000 }),
    "tasks: 1,000 of 3,000, 500/s, 4 s left",
  );
  now = 16_000;
  assert.equal(textOf({ part: "tasks", done: 3000, of: 3000 }), "tasks: 3,000 of 3,000, 500/s");
});

test("the rate of slow work is by the minute, and work of unknown size shows no time left", () => {
  const tables = { part: "tables checked", done: 3, of: 23 };

  assert.equal(progressText(tables, 12_000), "tables checked: 3 of 23, 15/min, 80 s left");
  assert.equal(progressText({ ...tables, done: 0 }, 12_000), "tables checked: 0 of 23");
  assert.equal(progressText({ ...tables, of: null }, 3000), "tables checked: 3, 1/s");
});

/** Tells progress to a terminal or to something else, and answers what it was written. */
async function writtenTo(terminal: { isTTY?: boolean }, steps: readonly WorkProgress[]) {
  const written: string[] = [];
  const write = (text: string): void => void written.push(text);
  const work = async (tell: TellProgress): Promise<string> => {
    for (const step of steps) tell(step);
    return "the value";
  };
  assert.equal(await withProgress(work, { ...terminal, write }), "the value");
  return written.join("");
}

test("on a terminal a part that is done keeps its line, and one that is not leaves none", async () => {
  const keys = { part: "keys", done: 2, of: 2 };
  const tasks = { part: "tasks", done: 1, of: 9 };

  assert.equal(await writtenTo({ isTTY: true }, [keys]), "\r\u001B[Kkeys: 2 of 2\n");
  assert.equal(await writtenTo({ isTTY: true }, [tasks]), "\r\u001B[Ktasks: 1 of 9\r\u001B[K");
});

test("nothing of it is written where there is no terminal", async () => {
  assert.equal(await writtenTo({}, [{ part: "keys", done: 2, of: 2 }]), "");
});

test("work that fails leaves no line either", async () => {
  const written: string[] = [];
  const terminal = { isTTY: true, write: (text: string) => written.push(text) };
  const failing = withProgress((tell) => {
    tell({ part: "tasks", done: 1, of: 9 });
    throw new Error("lost");
  }, terminal);

  await assert.rejects(failing, /lost/);
  assert.equal(written.at(-1), "\r\u001B[K");
});

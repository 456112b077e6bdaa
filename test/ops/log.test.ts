import assert from "node:assert/strict";
import { test } from "node:test";

import { createLogger, RECENT_LINES_MAX } from "../../src/log.ts";

function start(options: Partial<Parameters<typeof createLogger>[0]> = {}) {
  const written: string[] = [];
  const write = (line: string): void => void written.push(line);
  return { written, log: createLogger({ level: "debug", format: "json", write, ...options }) };
}

test("the log keeps the last lines from info up, oldest first, in both formats", () => {
  for (const format of ["json", "text"] as const) {
    const { written, log } = start({ format });
    log.debug({ n: 0 }, "unseen");
    log.info({ url: "http://a", n: 1 }, "one");
    log.warn({ text: "a b\n\u001b[2J\u202e" }, "two");
    log.error({}, "three");
    assert.equal(written.length, 4);
    assert.deepEqual(
      log.recent().map(({ level, message, facts }) => [level, message, facts]),
      [
        ["info", "one", "url=http://a n=1"],
        ["warn", "two", 'text="a b\\n\\u001b[2J\\u202e"'],
        ["error", "three", ""],
      ],
    );
    for (const { time } of log.recent()) assert.match(time, /^\d{4}-\d\d-\d\dT.*Z$/);
  }
});

test("the log keeps an error with its stack, on separate lines", () => {
  const { log } = start();
  log.error({ err: new TypeError("no\u001b way"), id: 7 }, "failed");
  const [line] = log.recent();
  const [first, ...stack] = line?.facts.split("\n") ?? [];
  assert.equal(first, "id=7");
  assert.equal(stack[0], "TypeError: no\\u001b way");
  assert.match(stack[1] ?? "", /^ +at /);
});

test("the log keeps a limited number of lines of limited length", () => {
  const { log } = start();
  for (let n = 0; n < 5 * RECENT_LINES_MAX; n++) {
    log.info({ n, faces: "😀".repeat(20_000) }, `line ${n} ${"x".repeat(20_000)}`);
  }
  const lines = log.recent();
  assert.equal(lines.length, RECENT_LINES_MAX);
  assert.match(lines.at(-1)?.message ?? "", /^line 999 /);
  assert.match(lines[0]?.message ?? "", /^line 800 /);
  for (const { message, facts } of lines) {
    assert.ok(message.length <= 4001 && facts.length <= 4001);
    assert.ok(message.isWellFormed() && facts.isWellFormed());
  }
});

test("lines below the level are neither written nor kept, and a returned list does not change", () => {
  const { log, written } = start({ level: "warn" });
  log.info({}, "unseen");
  log.warn({}, "seen");
  const before = log.recent();
  log.error({}, "later");
  assert.deepEqual(
    before.map(({ message }) => message),
    ["seen"],
  );
  assert.equal(written.length, 2);
  const silent = start({ level: "silent" });
  silent.log.error({}, "unseen");
  assert.deepEqual(silent.log.recent(), []);
});

test("each line for journald begins with its priority, including the lines of a stack", () => {
  for (const format of ["json", "text"] as const) {
    const { log, written } = start({ format, isJournal: true });
    log.debug({}, "one");
    log.info({}, "two");
    log.warn({}, "three");
    log.error({ err: new Error("four") }, "four");
    const lines = written.join("").trimEnd().split("\n");
    const priorities = lines.map((line) => line.slice(0, 3));
    assert.deepEqual(priorities.slice(0, 4), ["<7>", "<6>", "<4>", "<3>"]);
    assert.ok(priorities.slice(4).every((each) => each === "<3>"));
    assert.equal(lines.length > 4, format === "text");
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { RECENT_LINES_MAX, createLogger } from "../../src/log.ts";
import { LoopWatch } from "../../src/ops/meter.ts";
import { ServiceManager } from "../../src/ops/service.ts";
import type { ProgramEnd } from "../../src/run/program.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const DONE: ProgramEnd = { kind: "exited", code: 0 };
const MANAGED = { NOTIFY_SOCKET: "/run/notify", WATCHDOG_USEC: "30000000", PATH: "/usr/bin" };

/** A daemon's service manager; `answer` is how each message goes. */
function setUp(
  given: Record<string, string>,
  answer: () => Promise<ProgramEnd> = async () => DONE,
) {
  const env: Record<string, string | undefined> = { ...given };
  const clock = createFakeClock({ now: 0 });
  const sent: (readonly string[])[] = [];
  const lines: (readonly [LogFacts, string])[] = [];
  const none = (): void => assert.fail("it only logs errors");
  const error: Logger["error"] = (facts, message) => void lines.push([facts, message]);
  const log: Logger = { debug: none, info: none, warn: none, error };
  const run: ConstructorParameters<typeof ServiceManager>[0]["run"] = (command) => {
    sent.push(command);
    return answer();
  };
  const manager = new ServiceManager({ env, pid: 7, log, clock, run });
  return { manager, env, clock, sent, lines };
}

/** Lets everything go on that waits for no timer. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("without a NOTIFY_SOCKET nothing is run", async () => {
  const { manager, clock, sent } = setUp({ WATCHDOG_USEC: "30000000" });
  manager.watch(async () => {});
  await manager.ready("Serving");
  await manager.stopping();

  clock.advance(60_000);
  await settle();

  assert.deepEqual(sent, []);
  assert.deepEqual(clock.pending(), []);
});

test("the variables of the service manager are removed for commands", () => {
  const { env } = setUp({ ...MANAGED, WATCHDOG_PID: "7" });

  assert.deepEqual(env, { PATH: "/usr/bin" });
});

test("messages are sent one after another", async () => {
  const turns: (() => void)[] = [];
  const { manager, sent } = setUp(MANAGED, () => {
    return new Promise((resolve) => turns.push(() => resolve(DONE)));
  });
  void manager.reloading();
  const last = manager.ready("Serving");
  await settle();
  assert.deepEqual(
    sent.map(([, first]) => first),
    ["RELOADING=1"],
  );

  turns.shift()?.();
  await settle();
  turns.shift()?.();
  await last;

  assert.deepEqual(sent[1], ["systemd-notify", "READY=1", "STATUS=Serving"]);
  assert.match(sent[0]?.[2] ?? "", /^MONOTONIC_USEC=\d+$/);
});

test("the watchdog gets two messages in each span while the writer works", async () => {
  const { manager, clock, sent } = setUp(MANAGED);
  const writes: (() => void)[] = [];
  manager.watch(() => new Promise((resolve) => writes.push(resolve)));
  const pass = async (): Promise<void> => {
    clock.advance(15_000);
    await settle();
  };
  await pass();
  assert.deepEqual(sent, []);
  writes.shift()?.();
  await settle();
  assert.deepEqual(sent, [["systemd-notify", "WATCHDOG=1"]]);

  for (const _ of [1, 2, 3]) await pass();
  assert.equal(writes.length, 1);
  assert.equal(sent.length, 1);

  writes.shift()?.();
  await settle();
  await pass();
  writes.shift()?.();
  await settle();
  assert.equal(sent.length, 3);
});

test("a watchdog of another process gets no message", async () => {
  const { manager, clock, sent } = setUp({ ...MANAGED, WATCHDOG_PID: "8" });
  manager.watch(async () => {});

  clock.advance(60_000);
  await settle();

  assert.deepEqual(sent, []);
});

test("a failed message to the manager is logged once", async () => {
  const { manager, lines } = setUp(MANAGED, async () => ({
    kind: "not_started",
    errorCode: "ENOENT",
  }));

  await manager.ready("Serving");
  await manager.stopping();

  assert.equal(lines.length, 1);
  assert.match(lines[0]?.[1] ?? "", /systemd-notify.+NotifyAccess=all/);
});

/** A watch that runs when the test lets time pass. */
function startWatch() {
  let time = 5000;
  const lines: (readonly [LogFacts, string])[] = [];
  const none = (): void => assert.fail("it only warns");
  const warn: Logger["warn"] = (facts, message) => void lines.push([facts, message]);
  const log: Logger = { debug: none, info: none, error: none, warn };
  const watch = new LoopWatch({ now: () => time, log });
  const after = (ms: number, times = 1): void => {
    for (let i = 0; i < times; i++) {
      time += ms;
      watch.look();
    }
  };
  return { watch, after, lines };
}

test("an event loop without delay logs nothing", () => {
  const { watch, after, lines } = startWatch();
  assert.deepEqual(watch.delay(), { p99Ms: 0, worstMs: 0 });
  after(100, 1300);
  after(90);
  assert.deepEqual(watch.delay(), { p99Ms: 0, worstMs: 0 });
  assert.deepEqual(lines, []);
});

test("a minute with delays over 200 ms is logged once, with the longest and the number", () => {
  const { after, lines } = startWatch();
  after(300);
  assert.deepEqual(lines, []);
  after(301);
  after(2100);
  assert.deepEqual(lines, []);
  after(100, 1200);
  assert.deepEqual(lines, [
    [{ longest_ms: 2000, times: 2 }, "the event loop was blocked for more than 200 ms"],
  ]);
});

test("the delay covers the last minute, weighted by time", () => {
  const { watch, after } = startWatch();
  after(100, 586);
  // A request during the delay waits for 600 ms at most.
  after(700, 2);
  assert.deepEqual(watch.delay(), { p99Ms: 300, worstMs: 600 });
  after(100, 585);
  assert.equal(watch.delay().worstMs, 600);
  after(100, 20);
  assert.deepEqual(watch.delay(), { p99Ms: 0, worstMs: 0 });
});

test("a delay of more than a minute fills the last minute", () => {
  const { watch, after } = startWatch();
  after(100, 600);
  after(100 + 120_000);
  const { p99Ms, worstMs } = watch.delay();
  assert.equal(worstMs, 120_000);
  assert.ok(p99Ms > 119_000);
});

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

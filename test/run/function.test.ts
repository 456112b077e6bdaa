import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, test } from "node:test";

import type { TaskFunction } from "../../src/domain/task/function.ts";
import type { TaskProgress } from "../../src/domain/task/run.ts";
import { MESSAGE_LENGTH_MAX, createFunctionRunner } from "../../src/run/function.ts";
import { createEchoRunner, type RunOutcome } from "../../src/run/runner.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";

const REQUEST = {
  id: "0198a1b2-c3d4-7000-8000-0123456789ab",
  type: "double",
  tag: "a tag",
  marketplace: null,
  inputText: '{"n":21}',
  trace: null,
};
const BYTES_MAX = 200;

interface Start {
  readonly clock: FakeClock;
  readonly abort: AbortController;
  readonly reports: TaskProgress[];
  readonly thrown: unknown[];
  readonly outcome: Promise<RunOutcome>;
}

function start(run: TaskFunction, inputText = REQUEST.inputText): Start {
  const clock = createFakeClock({ now: 0 });
  const abort = new AbortController();
  const reports: TaskProgress[] = [];
  const thrown: unknown[] = [];
  const runner = createFunctionRunner({
    run,
    timeoutMs: 10_000,
    concurrency: 2,
    resultBytesMax: BYTES_MAX,
    clock,
    threw: (error) => void thrown.push(error),
  });
  const report = (progress: TaskProgress): void => void reports.push(progress);
  const outcome = runner.run({ ...REQUEST, inputText }, { signal: abort.signal, report });
  return { clock, abort, reports, thrown, outcome };
}

function outcomeOf(run: TaskFunction): Promise<RunOutcome> {
  return start(run).outcome;
}

const never = new Promise<never>(() => {});

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

class Hostile {
  get message(): string {
    throw new Error("not even this");
  }
  get name(): string {
    throw new Error("nor this");
  }
}

const trapped = new Proxy(
  {},
  {
    has() {
      throw new Error("trapped");
    },
    get() {
      throw new Error("trapped");
    },
    getPrototypeOf() {
      throw new Error("trapped");
    },
    ownKeys() {
      throw new Error("trapped");
    },
  },
);

const throwing = (value: unknown): TaskFunction => {
  return () => {
    throw value;
  };
};

const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;

const NO_RESULTS: readonly (readonly [name: string, run: () => unknown])[] = [
  ["a BigInt", () => 1n],
  ["a BigInt in an object", () => ({ deep: [1n] })],
  ["a cycle", () => cyclic],
  ["a function", () => () => 1],
  ["a symbol", () => Symbol("s")],
  ["a toJSON that returns undefined", () => ({ toJSON() {} })],
  ["a toJSON that throws", () => ({ toJSON: throwing(new Error("no form today")) })],
  ["a toJSON that throws an unreadable value", () => ({ toJSON: throwing(trapped) })],
  ["a proxy whose traps throw", () => [trapped]],
  ["65 levels", () => nested(65)],
  ["more levels than the stack has", () => nested(100_000)],
  ["one byte too many", () => "x".repeat(BYTES_MAX - 1)],
  ["too many bytes of few characters", () => "ü".repeat(110)],
];
for (const [name, run] of NO_RESULTS) {
  test(`${name} as result fails the run`, async () => {
    assert.equal((await outcomeOf(run)).kind, "failed");
  });
}

const THROWN: readonly (readonly [
  name: string,
  thrown: unknown,
  message?: string | undefined,
  detail?: object,
])[] = [
  ["an error", new TypeError("no width"), "no width", { name: "TypeError" }],
  ["a text", "just words", "just words", {}],
  ["an error without a message", new Error(), undefined, { name: "Error" }],
  ["undefined", undefined],
  ["null", null],
  ["a number", 5],
  ["an object without a prototype", Object.create(null)],
  ["an object with throwing getters", new Hostile()],
  ["a proxy whose traps throw", trapped],
  ["a message that is not a text", { message: 5, name: {} }],
  ["half a surrogate pair", new Error("a\ud800b"), "a\ufffdb", { name: "Error" }],
  [
    "an error with a secret cause",
    new Error("outer", { cause: new Error("inner secret") }),
    "outer",
    { name: "Error" },
  ],
];
for (const [name, thrown, message, detail = {}] of THROWN) {
  test(`a function that throws ${name}, immediately or later, fails the run`, async () => {
    for (const run of [throwing(thrown), () => Promise.reject(thrown)]) {
      const { outcome, thrown: reported } = start(run);
      const ended = await outcome;
      assert.partialDeepStrictEqual(ended, { kind: "failed", ...(message && { message }) });
      assert.deepEqual(ended.kind === "failed" && ended.detail, detail);
      assert.equal(reported[0], thrown);
    }
  });
}

test("a long message is cut, but never inside a surrogate pair; a thenable that throws fails", async () => {
  const long = await outcomeOf(throwing(new Error(`${"x".repeat(998)}😀${"y".repeat(1e6)}`)));
  assert.ok(long.kind === "failed");
  assert.equal(long.message, `${"x".repeat(998)}…`);
  assert.ok(long.message.length <= MESSAGE_LENGTH_MAX);

  const detail = { name: "Error" };
  const thenable = await outcomeOf(() => trapped);
  assert.deepEqual(thenable, { kind: "failed", message: "trapped", detail });
});

const RESULTS: readonly (readonly [name: string, run: () => unknown, resultText: string])[] = [
  ["undefined", () => undefined, "null"],
  ["null", () => null, "null"],
  ["a promise of undefined", async () => {}, "null"],
  ["a text", () => "ü😀", '"ü😀"'],
  ["a date", () => new Date(0), '"1970-01-01T00:00:00.000Z"'],
  ["numbers outside JSON", () => [NaN, Infinity, undefined], "[null,null,null]"],
  ["raw JSON", () => JSON.rawJSON("12345678901234567890.10"), "12345678901234567890.10"],
  ["the limit", () => "x".repeat(BYTES_MAX - 2), `"${"x".repeat(BYTES_MAX - 2)}"`],
  ["64 levels", () => nested(64), `${"[".repeat(64)}1${"]".repeat(64)}`],
];
for (const [name, run, resultText] of RESULTS) {
  test(`${name} as result completes the run`, async () => {
    assert.deepEqual(await outcomeOf(run), { kind: "completed", resultText });
  });
}

test("echo returns its input digit for digit, has its concurrency, and does not run after an abort", async () => {
  const echo = createEchoRunner({ concurrency: 3 });
  const resultText = '{"n":12345678901234567890,"x":1.50,"s":"\\u0000é"}';
  const request = { ...REQUEST, inputText: resultText };
  const report = (): void => {};
  const { signal } = new AbortController();

  assert.deepEqual(await echo.run(request, { signal, report }), { kind: "completed", resultText });
  const aborted = await echo.run(request, { signal: AbortSignal.abort(), report });
  assert.deepEqual([aborted, echo.concurrency], [{ kind: "aborted" }, 3]);
});

test("a function that changes its task changes no other run", async () => {
  const seen: unknown[] = [];
  const mutate: TaskFunction = (task) => {
    seen.push(structuredClone(task));
    Object.assign(task, { id: "another" });
    (task.input as { n: number }).n = 0;
  };
  const runner = createFunctionRunner({
    run: mutate,
    timeoutMs: 1,
    concurrency: 1,
    resultBytesMax: 9,
    clock: createFakeClock({ now: 0 }),
  });
  const { signal } = new AbortController();
  for (let i = 0; i < 2; i++) await runner.run(REQUEST, { signal, report() {} });

  const { inputText: _text, trace: _trace, ...facts } = REQUEST;
  assert.deepEqual(seen, [
    { ...facts, input: { n: 21 } },
    { ...facts, input: { n: 21 } },
  ]);
});

describe("a run that takes too long", () => {
  test("times out although its promise never settles, with a TimeoutError in its signal", async () => {
    const reasons: unknown[] = [];
    const { clock, outcome } = start((_task, { signal }) => {
      signal.addEventListener("abort", () => reasons.push(signal.reason));
      return never;
    });

    clock.advance(9_999);
    assert.equal(reasons.length, 0);
    clock.advance(1);

    assert.partialDeepStrictEqual(await outcome, { kind: "timed_out", detail: {} });
    assert.deepEqual(
      reasons.map((reason) => reason instanceof DOMException && reason.name),
      ["TimeoutError"],
    );
    assert.deepEqual(clock.pending(), []);
  });

  test("keeps its outcome, although the function returns or throws later", async () => {
    for (const late of ["value", "error"] as const) {
      const gate = Promise.withResolvers<void>();
      const { clock, outcome, reports, thrown } = start(async (_task, { progress }) => {
        await gate.promise;
        progress(0.5);
        if (late === "error") throw new Error("too late");
        return late;
      });
      clock.advance(10_000);
      gate.resolve();

      assert.equal((await outcome).kind, "timed_out");
      // The function has ended by then: an unhandled rejection would fail this file.
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual([reports, thrown], [[], []]);
    }
  });
});

describe("a run that is aborted", () => {
  test("ends immediately although its promise never settles, with its reason in the signal", async () => {
    let seen: unknown;
    const { abort, clock, outcome } = start((_task, { signal }) => {
      signal.addEventListener("abort", () => (seen = signal.reason));
      return never;
    });
    const reason = new Error("cancelled");
    abort.abort(reason);

    assert.deepEqual(await outcome, { kind: "aborted" });
    assert.equal(seen, reason);
    assert.deepEqual(clock.pending(), []);
  });

  test("is aborted, although its function returns or throws on the signal", async () => {
    for (const answer of ["value", "error"] as const) {
      const { abort, outcome, thrown } = start((_task, { signal }) => {
        const { promise, resolve, reject } = Promise.withResolvers<string>();
        signal.addEventListener("abort", () =>
          answer === "value" ? resolve("late") : reject(new Error("stopped")),
        );
        return promise;
      });
      abort.abort();

      assert.deepEqual(await outcome, { kind: "aborted" });
      assert.deepEqual(thrown, []);
    }
  });

  test("does not begin after an abort", async () => {
    let isCalled = false;
    const runner = createFunctionRunner({
      run: () => (isCalled = true),
      timeoutMs: 1,
      concurrency: 1,
      resultBytesMax: 9,
      clock: createFakeClock({ now: 0 }),
    });

    const outcome = await runner.run(REQUEST, { signal: AbortSignal.abort(), report() {} });

    assert.deepEqual([outcome, isCalled], [{ kind: "aborted" }, false]);
  });

  test("leaves no listener on its signal, and no timer", async () => {
    const { signal } = new AbortController();
    const clock = createFakeClock({ now: 0 });
    const runner = createFunctionRunner({
      run: () => 1,
      timeoutMs: 1,
      concurrency: 1,
      resultBytesMax: 9,
      clock,
    });
    await runner.run(REQUEST, { signal, report() {} });

    assert.deepEqual([getEventListeners(signal, "abort"), clock.pending()], [[], []]);
  });
});

test("progress is reported during a run, and invalid progress is ignored", async () => {
  const { outcome, reports } = start((_task, { progress }) => {
    progress(0);
    progress(0.5, "halfway");
    // A program without types may pass anything.
    const careless = progress as (...report: unknown[]) => void;
    careless();
    careless("0.6");
    careless(NaN);
    careless(-0.1);
    careless(1.1);
    careless(0.7, 5);
    careless(0.7, "a\nb");
    careless(0.7, "x".repeat(256));
    careless({ progress: 0.7 });
    progress(1);
  });

  assert.equal((await outcome).kind, "completed");
  assert.deepEqual(reports, [
    { progress: 0, note: null },
    { progress: 0.5, note: "halfway" },
    { progress: 1, note: null },
  ]);
});

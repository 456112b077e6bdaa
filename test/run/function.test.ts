import assert from "node:assert/strict";
import { describe, test } from "node:test";

import type { TaskFunction } from "../../src/domain/task/function.ts";
import type { TaskProgress } from "../../src/domain/task/run.ts";
import { MESSAGE_LENGTH_MAX, createFunctionRunner } from "../../src/run/function.ts";
import type { RunOutcome } from "../../src/run/runner.ts";
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

describe("what is no result", () => {
  const cyclic: { self?: unknown } = {};
  cyclic.self = cyclic;
  const cases: readonly (readonly [string, () => unknown, RegExp])[] = [
    ["a BigInt", () => 1n, /cannot be written as JSON: Do not know how to serialize a BigInt\.$/],
    ["a BigInt within", () => ({ deep: [1n] }), /cannot be written as JSON/],
    [
      "a cycle",
      () => cyclic,
      /cannot be written as JSON: Converting circular structure to JSON\.$/,
    ],
    ["a function", () => () => 1, /has no form in JSON \(a function\)/],
    ["a symbol", () => Symbol("s"), /has no form in JSON \(a symbol\)/],
    ["a toJSON that returns nothing", () => ({ toJSON() {} }), /has no form in JSON/],
    [
      "a toJSON that throws",
      () => ({
        toJSON() {
          throw new Error("no form today");
        },
      }),
      /cannot be written as JSON: no form today/,
    ],
    ["a toJSON that throws what cannot be read", () => ({ toJSON: throwing(trapped) }), /throws/],
    ["a proxy whose traps throw", () => [trapped], /cannot be written as JSON: trapped/],
    ["65 levels", () => nested(65), /is nested deeper than 64 levels/],
    ["more levels than the stack has", () => nested(100_000), /cannot be written as JSON/],
    ["one byte too many", () => "x".repeat(BYTES_MAX - 1), /is over 200 bytes/],
    ["too many bytes of few characters", () => "ü".repeat(110), /is over 200 bytes/],
  ];
  for (const [name, run, message] of cases) {
    test(`${name} fails the run`, async () => {
      const outcome = await outcomeOf(run);

      assert.equal(outcome.kind, "failed");
      if (outcome.kind === "failed") assert.match(outcome.message, message);
    });
  }
});

describe("what is thrown", () => {
  const cases: readonly (readonly [string, unknown, string, object])[] = [
    ["an error", new TypeError("no width"), "no width", { name: "TypeError" }],
    ["a text", "just words", "just words", {}],
    ["an error without a message", new Error(), "", { name: "Error" }],
    ["undefined", undefined, "", {}],
    ["null", null, "", {}],
    ["a number", 5, "", {}],
    ["an object of no class", Object.create(null), "", {}],
    ["what throws when it is read", new Hostile(), "", {}],
    ["a proxy whose traps throw", trapped, "", {}],
    ["a message that is no text", { message: 5, name: {} }, "", {}],
    ["half a surrogate pair", new Error("a\ud800b"), "a\ufffdb", { name: "Error" }],
  ];
  for (const [name, thrown, text, detail] of cases) {
    const message = text === "" ? "The function threw something without a message." : text;
    test(`${name} fails the run, at once or later`, async () => {
      const now = start(throwing(thrown));
      const later = start(() => Promise.reject(thrown));

      for (const { outcome, thrown: told } of [now, later]) {
        assert.deepEqual(await outcome, { kind: "failed", message, detail });
        assert.equal(told[0], thrown);
      }
    });
  }

  test("a long message is cut, and never between the halves of a character", async () => {
    const outcome = await outcomeOf(throwing(new Error(`${"x".repeat(998)}😀${"y".repeat(1e6)}`)));

    assert.ok(outcome.kind === "failed");
    assert.equal(outcome.message, `${"x".repeat(998)}…`);
    assert.ok(outcome.message.length <= MESSAGE_LENGTH_MAX);
  });

  test("neither the stack nor a cause reaches the client", async () => {
    const error = new Error("outer", { cause: new Error("inner secret") });

    assert.deepEqual(await outcomeOf(throwing(error)), {
      kind: "failed",
      message: "outer",
      detail: { name: "Error" },
    });
  });

  test("a thenable that throws fails the run", async () => {
    assert.deepEqual(await outcomeOf(() => trapped), {
      kind: "failed",
      message: "trapped",
      detail: { name: "Error" },
    });
  });
});

describe("what is a result", () => {
  const cases: readonly (readonly [string, () => unknown, string])[] = [
    ["nothing", () => undefined, "null"],
    ["null", () => null, "null"],
    ["a promise of nothing", async () => {}, "null"],
    ["text, quoted", () => "ü😀", '"ü😀"'],
    ["a date, by its toJSON", () => new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ["what JSON has no number for", () => [NaN, Infinity, undefined], "[null,null,null]"],
    [
      "raw JSON, every digit",
      () => JSON.rawJSON("12345678901234567890.10"),
      "12345678901234567890.10",
    ],
    ["exactly the limit", () => "x".repeat(BYTES_MAX - 2), `"${"x".repeat(BYTES_MAX - 2)}"`],
    ["exactly 64 levels", () => nested(64), `${"[".repeat(64)}1${"]".repeat(64)}`],
  ];
  for (const [name, run, resultText] of cases) {
    test(`${name} completes the run`, async () => {
      assert.deepEqual(await outcomeOf(run), { kind: "completed", resultText });
    });
  }
});

test("a function is given a task of its own, and what it does to it changes nothing", async () => {
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
  test("times out at once although its promise never settles, and its signal says why", async () => {
    const reasons: unknown[] = [];
    const { clock, outcome } = start((_task, { signal }) => {
      signal.addEventListener("abort", () => reasons.push(signal.reason));
      return never;
    });

    clock.advance(9_999);
    assert.equal(reasons.length, 0);
    clock.advance(1);

    const message = "The function ran past its timeout of 10 s.";
    assert.deepEqual(await outcome, { kind: "timed_out", message, detail: {} });
    assert.deepEqual(
      reasons.map((reason) => reason instanceof DOMException && reason.name),
      ["TimeoutError"],
    );
    assert.deepEqual(clock.pending(), []);
  });

  test("keeps its outcome whatever the function does afterwards", async () => {
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
      // The function has ended by then, and a rejection that nobody handles would fail this file.
      await new Promise((resolve) => setImmediate(resolve));
      assert.deepEqual([reports, thrown], [[], []]);
    }
  });

  test("is not timed out once it has its result", async () => {
    const { clock, outcome } = start(() => 1);

    assert.deepEqual(await outcome, { kind: "completed", resultText: "1" });
    assert.deepEqual(clock.pending(), []);
  });
});

describe("a run that is aborted", () => {
  test("ends at once although its promise never settles, and hands on the reason", async () => {
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

  test("is aborted too when the function answers its signal with an error or a value", async () => {
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

  test("is never begun when its signal was aborted before", async () => {
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

  test("leaves nothing on a signal that outlives it", async () => {
    const abort = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = abort.signal;
    abort.signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
      listeners++;
      addEventListener.apply(abort.signal, args);
    };
    abort.signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
      listeners--;
      removeEventListener.apply(abort.signal, args);
    };
    const runner = createFunctionRunner({
      run: () => 1,
      timeoutMs: 1,
      concurrency: 1,
      resultBytesMax: 9,
      clock: createFakeClock({ now: 0 }),
    });
    await runner.run(REQUEST, { signal: abort.signal, report() {} });

    assert.equal(listeners, 0);
  });
});

test("progress is told while it lasts, and what is none is passed over", async () => {
  const { outcome, reports } = start((_task, { progress }) => {
    progress(0);
    progress(0.5, "halfway");
    // What a program without types may do.
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

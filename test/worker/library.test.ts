import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { newWorkerToken } from "../../src/domain/account/key.ts";
import type { Logger } from "../../src/domain/log.ts";
import { createWorker, TaskFailure, type WorkerSettings } from "../../src/worker.ts";
import { afterwards, startTestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskClient } from "../helpers/task-client.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { Series } from "./worker-setup.ts";

// A heartbeat each third of a second soon shows the state of a lease.
const TOML = `[types.x]\nrunner = "worker"\nlease = "1s"\n[types.y]\nrunner = "worker"\nlease = "1s"\n
[types.again]\nrunner = "worker"\nretries = 1\n[limits]\nresult = "2KiB"\n`;
const TYPES = ["x", "y", "again"];

type Settings = Partial<WorkerSettings<Record<string, unknown>>>;

/** Starts the real daemon and a worker of it, stopped after the test. */
async function startPair(t: TestContext, settings: Settings) {
  const daemon = await startTestDaemon(t, { toml: TOML });
  const token = await createTestWorker(daemon.file, TYPES);
  const client = taskClient({ url: daemon.url, key: daemon.account.key });
  return { daemon, token, client, ...startWorker(t, { url: daemon.url, token, ...settings }) };
}

function startWorker(t: TestContext, settings: Settings) {
  const logged = new Series<string>();
  const write = (facts: unknown, message: string): void =>
    logged.add(`${message} ${JSON.stringify(facts)}`);
  const log: Logger = { debug: write, info: write, warn: write, error: write };
  const ready = Promise.withResolvers<void>();
  const given = { url: "", token: "", types: {}, log, onReady: ready.resolve, ...settings };
  const worker = createWorker<Record<string, unknown>>(given);
  const running = worker.run();
  afterwards(t, () => worker.stop({ graceMs: 0 }));
  // Each test awaits it later.
  running.catch(() => {});
  return { worker, running, ready: ready.promise, logged };
}

/** A handler whose runs the test or their signal ends. */
function openHandler() {
  const runs = new Series<{
    readonly input: unknown;
    readonly signal: AbortSignal;
    readonly end: (result: unknown) => void;
  }>();
  const run: NonNullable<Settings["types"]>[string] = ({ input }, { signal }) =>
    new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error));
      runs.add({ input, signal, end: resolve });
    });
  return { run, runs };
}

const { key: TOKEN } = newWorkerToken();
const GOOD = { url: "http://127.0.0.1:1", token: TOKEN, types: { x: () => 1 } };

const WRONG: readonly [settings: unknown, ...keys: string[]][] = [
  [undefined, "url", "token", "types"],
  [{ ...GOOD, url: "ftp://a.example" }, "url"],
  [{ ...GOOD, url: `https://u:${TOKEN}@a.example` }, "url"],
  [{ ...GOOD, url: "http://192.0.2.1" }, "insecureHttp"],
  [{ ...GOOD, token: `${TOKEN}x` }, "token"],
  [{ ...GOOD, token: [TOKEN] }, "token"],
  [{ ...GOOD, token: `${TOKEN}\r\nx: y` }, "token"],
  [{ ...GOOD, types: {} }, "types"],
  [{ ...GOOD, types: [() => 1] }, "types"],
  [{ ...GOOD, types: { x: { run: () => 1 } } }, "types.x"],
  ...[0, "2", 1001, { x: 1.5 }, { z: 1 }].map((concurrency): [unknown, string] => [
    { ...GOOD, concurrency },
    "concurrency",
  ]),
  ...[31, 0, Number.NaN].map((waitSeconds): [unknown, string] => [
    { ...GOOD, waitSeconds },
    "waitSeconds",
  ]),
  [{ ...GOOD, log: true }, "log"],
  [{ ...GOOD, onError: "x", onReady: 1 }, "onReady", "onError"],
  [{ ...GOOD, type: "x" }, '"type"'],
];

test("createWorker throws a line for each wrong setting, without the token", () => {
  for (const [settings, ...keys] of WRONG) {
    // A program without types may pass anything.
    const make = (): unknown => createWorker(settings as WorkerSettings<unknown>);
    assert.throws(make, (error) => {
      assert.ok(error instanceof TypeError);
      assert.equal(error.message.match(/^- /gm)?.length, keys.length, error.message);
      for (const key of keys) assert.ok(error.message.includes(key), error.message);
      assert.ok(!error.message.includes(TOKEN.slice(9)), error.message);
      return true;
    });
  }
});

test("a type may have any name of a property", async (t) => {
  const { worker } = startWorker(t, {
    ...GOOD,
    types: { constructor: () => 1, ["__proto__"]: () => 2 },
  });

  await worker.stop({ graceMs: 0 });
});

test("an unknown token ends the worker, and appears in no error and no log", async (t) => {
  const daemon = await startTestDaemon(t, { toml: TOML });
  const { running, logged } = startWorker(t, { ...GOOD, url: daemon.url });

  await assert.rejects(running, /40100/);
  assert.ok(!logged.items.join("").includes(TOKEN));
});

test("a result that is no JSON or too large fails its task, and is logged", async (t) => {
  const values = [
    1n,
    JSON.parse("[".repeat(65) + "]".repeat(65)),
    "x".repeat(3000),
    "x".repeat(3e6),
  ];
  const types: Settings["types"] = { x: ({ input }) => values[Number(input)] };
  const { client, logged } = await startPair(t, { types });

  for (const input of values.keys()) {
    const { state, status_code, runs } = await client.ended(
      await client.post({ type: "x", input }),
    );
    assert.deepEqual([state, status_code, runs], ["failed", 50010, 1]);
    await logged.nth(input + 1, (line) => /the run failed|did not take all/.test(line));
  }
});

/** Thrown values, and the error that a client gets. */
const THROWN: readonly [thrown: unknown, message: string | null, detail: unknown][] = [
  [new RangeError("No disk."), "No disk.", { name: "RangeError" }],
  [undefined, null, {}],
  [new TaskFailure("No.", { detail: { path: "a" } }), "No.", { path: "a" }],
  [new TaskFailure("No.", { detail: Object(1n) as { a: 1 } }), "No.", {}],
  [new TaskFailure("No.", { detail: { a: "x".repeat(2 ** 21) } }), "No.", {}],
];

test("an error of a handler fails its task, and onError gets it", async (t) => {
  const caught: unknown[] = [];
  const throwing: NonNullable<Settings["types"]>[string] = ({ input }) => {
    throw THROWN[Number(input)]?.[0];
  };
  const { client } = await startPair(t, {
    types: { x: throwing },
    onError(error, task) {
      caught.push([error, task.type]);
      throw new Error("onError's own");
    },
  });

  for (const [input, [thrown, message, detail]] of THROWN.entries()) {
    const { state, error } = await client.ended(await client.post({ type: "x", input }));
    assert.deepEqual([state, error?.detail], ["failed", detail]);
    if (message !== null) assert.equal(error?.message, message);
    assert.deepEqual(caught[input], [thrown, "x"]);
  }
});

test("retry of a failure decides whether its task runs again; without it the type decides", async (t) => {
  const inputs: Record<string, number> = {};
  const handler = ({ input }: { readonly input: unknown }): unknown => {
    const { name, retry } = input as { name: string; retry?: boolean };
    inputs[name] = (inputs[name] ?? 0) + 1;
    if (inputs[name] === 2) return "done";
    throw new TaskFailure("No.", { retry });
  };
  const { client } = await startPair(t, { types: { x: handler, again: handler } });

  const tasks = [
    { type: "x", input: { name: "a", retry: true } },
    { type: "x", input: { name: "b" } },
    { type: "again", input: { name: "c", retry: false } },
    { type: "again", input: { name: "d" } },
  ];
  const ids = await Promise.all(tasks.map((task) => client.post(task)));
  const ended = await Promise.all(ids.map((id) => client.ended(id)));

  assert.deepEqual(
    ended.map(({ state, runs }) => [state, runs]),
    [
      ["completed", 2],
      ["failed", 1],
      ["failed", 1],
      ["completed", 2],
    ],
  );
});

test("a cancelled task aborts its handler and frees its slot", async (t) => {
  const { run, runs } = openHandler();
  const { client } = await startPair(t, { types: { x: run } });
  const id = await client.post({ type: "x", input: 1 });
  const { signal } = await runs.nth(1);
  const next = await client.post({ type: "x", input: 2 });

  await client.cancel(id);
  const second = await runs.nth(2);
  second.end("two");

  assert.deepEqual([signal.aborted, second.input], [true, 2]);
  assert.equal((await client.ended(next)).result, "two");
  assert.equal((await client.get(id)).state, "cancelled");
});

test("a stop claims no more, lets handlers end, and releases the others", async (t) => {
  const { run, runs } = openHandler();
  const { client, worker, running } = await startPair(t, { types: { x: run }, concurrency: 2 });
  const quick = await client.post({ type: "x", input: "quick" });
  const slow = await client.post({ type: "x", input: "slow" });
  const [first, second] = [await runs.nth(1), await runs.nth(2)];
  const late = await client.post({ type: "x", input: "late" });

  const stopped = worker.stop();
  first.end(1);
  assert.equal((await client.ended(quick)).state, "completed");
  // A second stop shortens the first one's grace.
  await worker.stop({ graceMs: 0 });
  await Promise.all([stopped, running]);

  assert.ok(second.signal.aborted);
  const shown = await Promise.all([slow, late].map((id) => client.get(id)));
  assert.deepEqual(
    shown.map(({ state, runs: count }) => [state, count]),
    [
      ["queued", 0],
      ["queued", 0],
    ],
  );
});

test("a handler that ignores its signal delays no stop, and its task is released", async (t) => {
  const started = Promise.withResolvers<void>();
  const hang = () => {
    started.resolve();
    return new Promise(() => {});
  };
  const { client, worker, running } = await startPair(t, { types: { x: hang } });
  const id = await client.post({ type: "x" });
  await started.promise;

  await worker.stop({ graceMs: 0 });
  await running;

  assert.equal((await client.get(id)).state, "queued");
});

test("a stopped worker does not run, and no worker runs twice", async () => {
  const worker = createWorker(GOOD);
  await worker.stop();
  await worker.run();

  await assert.rejects(worker.run(), /runs already, or has ended/);
});

test("await using stops a worker at the end of its block", async (t) => {
  const { run, runs } = openHandler();
  const { daemon, client, token } = await startPair(t, { types: { y: run } });
  let running: Promise<void>;
  const seen = Promise.withResolvers<void>();
  {
    await using worker = createWorker({
      url: daemon.url,
      token,
      types: { x: () => seen.resolve() },
    });
    running = worker.run();
    await client.ended(await client.post({ type: "x" }));
  }
  await Promise.all([running, seen.promise]);

  assert.equal(runs.items.length, 0);
});

test("types with slots of their own do not wait for each other", async (t) => {
  const x = openHandler();
  const y = openHandler();
  const { client } = await startPair(t, {
    types: { x: x.run, y: y.run, again: () => "third" },
    concurrency: { x: 1, y: 2 },
  });
  for (const type of ["x", "x", "y", "y", "y"]) await client.post({ type });
  await Promise.all([x.runs.nth(1), y.runs.nth(2)]);

  const third = await client.ended(await client.post({ type: "again" }));

  assert.deepEqual([third.result, x.runs.items.length, y.runs.items.length], ["third", 1, 2]);
});

test("a handler's progress is shown during the run", async (t) => {
  const told = Promise.withResolvers<void>();
  const { client } = await startPair(t, {
    types: {
      async x(task, { progress, signal }) {
        progress(2, "refused");
        progress(0.5, "half");
        await told.promise;
        const { id, type, tag, input } = task;
        return { id, type, tag, input, signal: signal.aborted };
      },
    },
  });
  const id = await client.post({ type: "x", tag: "t", input: { a: [1] } });

  let shown = "";
  while (!shown.includes('"progress"')) {
    const path = `/v1/tasks/task_get/${id}?collect=false`;
    shown = await (await client.call(path, { headers: { prefer: "wait=1" } })).text();
  }
  told.resolve();

  assert.match(shown, /"progress":\{"progress":0\.5,"note":"half"\}/);
  const { result } = await client.ended(id);
  assert.deepEqual(result, { id, type: "x", tag: "t", input: { a: [1] }, signal: false });
});

test("a task of an unexpected type is released", async (t) => {
  const lease = { lease_id: "a", lease_expires_at: new Date(Date.now() + 60_000), run: 1 };
  const task = { id: "1", type: "toString", input: null, outcome: "ok", ...lease };
  const body = JSON.stringify({ tasks: [task] });
  const reply = { kind: "status", status: 200, body } as const;
  const server = await startReceiver(t, {
    reply: ({ url }, index) => (url.endsWith("/claim") && index > 0 ? { kind: "hang" } : reply),
  });

  startWorker(t, { ...GOOD, url: server.url() });

  let request = await server.next();
  while (!request.url.endsWith("/release")) request = await server.next();
  assert.equal(String(request.rawBody), '{"tasks":[{"id":"1","lease_id":"a"}]}');
});

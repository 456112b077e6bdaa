import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { newWorkerToken } from "../../src/domain/account/key.ts";
import type { Logger } from "../../src/domain/log.ts";
import { createWorker, TaskFailure, type WorkerSettings } from "../../src/worker.ts";
import { afterwards, openBeside, startTestDaemon, type ShownTask } from "../helpers/daemon.ts";
import { taskClient } from "../helpers/task-client.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { Series } from "./worker-setup.ts";

// A heartbeat each third of a second tells soon what has become of a lease.
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
  // Each test looks at it in its own time.
  running.catch(() => {});
  return { worker, running, ready: ready.promise, logged };
}

/** A handler whose runs wait for the test, or for their signals. */
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

function errorOf({ state, status_code, error, runs }: ShownTask) {
  return { state, status_code, message: error?.message, detail: error?.detail, runs };
}

const { key: TOKEN } = newWorkerToken();
const GOOD = { url: "http://127.0.0.1:1", token: TOKEN, types: { x: () => 1 } };

const WRONG: readonly [settings: unknown, said: RegExp][] = [
  [undefined, /- url must be a base URL.*\n- token must be .*\n- types is missing/s],
  [{ ...GOOD, url: "ftp://a.example" }, /- url must be a base URL such as https/],
  [{ ...GOOD, url: `https://u:${TOKEN}@a.example` }, /- url must be a base URL .* without a user/],
  [{ ...GOOD, url: "http://192.0.2.1" }, /plain HTTP beyond this machine.*insecureHttp: true/],
  [{ ...GOOD, token: `${TOKEN}x` }, /- token must be a worker's token/],
  [{ ...GOOD, token: [TOKEN] }, /- token must be a worker's token/],
  [{ ...GOOD, token: `${TOKEN}\r\nx: y` }, /- token must be a worker's token/],
  [{ ...GOOD, types: {} }, /- types is missing/],
  [{ ...GOOD, types: [() => 1] }, /- types is missing/],
  [{ ...GOOD, types: { x: { run: () => 1 } } }, /- types\.x must be a function/],
  [{ ...GOOD, concurrency: 0 }, /- concurrency must be whole numbers/],
  [{ ...GOOD, concurrency: "2" }, /- concurrency must be whole numbers/],
  [{ ...GOOD, concurrency: 1001 }, /- concurrency must be whole numbers.*1000/],
  [{ ...GOOD, concurrency: { x: 1.5 } }, /- concurrency must be whole numbers/],
  [{ ...GOOD, concurrency: { z: 1 } }, /- concurrency names "z", which types does not/],
  [{ ...GOOD, waitSeconds: 31 }, /- waitSeconds must be a number from 1 to 30/],
  [{ ...GOOD, waitSeconds: 0 }, /- waitSeconds must be a number from 1 to 30/],
  [{ ...GOOD, waitSeconds: Number.NaN }, /- waitSeconds must be/],
  [{ ...GOOD, log: true }, /- log must be a logger/],
  [{ ...GOOD, onError: "x", onReady: 1 }, /- onReady must be a function\n- onError must be/],
  [{ ...GOOD, type: "x" }, /- "type" is an unknown setting/],
];

for (const [settings, said] of WRONG) {
  test(`createWorker says what is wrong, and no token: ${String(said)}`, () => {
    // A program without types may give anything.
    const make = (): unknown => createWorker(settings as WorkerSettings<unknown>);

    assert.throws(make, (error) => {
      assert.ok(error instanceof TypeError);
      assert.match(error.message, said);
      assert.ok(!error.message.includes(TOKEN.slice(9)), error.message);
      return true;
    });
  });
}

test("a type may have any name that an object may have", async (t) => {
  const { worker } = startWorker(t, {
    ...GOOD,
    types: { constructor: () => 1, ["__proto__"]: () => 2 },
  });

  await worker.stop({ graceMs: 0 });
});

test("a token that the daemon does not know ends the worker, and stands in no error and no log", async (t) => {
  const daemon = await startTestDaemon(t, { toml: TOML });
  const { running, logged } = startWorker(t, { ...GOOD, url: daemon.url });

  await assert.rejects(running, (error) => {
    assert.match(
      String(error),
      /^Error: the daemon refuses this worker: 40100 .* Check the token\.$/,
    );
    return true;
  });
  assert.ok(!logged.items.join("").includes(TOKEN));
});

test("a type that is no worker's ends the worker", async (t) => {
  const { running } = await startPair(t, { types: { echo: () => 1 } });

  await assert.rejects(running, /4030[01]|40501/);
});

test("a revoked token aborts what runs and ends the worker with the reason", async (t) => {
  const { run, runs } = openHandler();
  const { daemon, client, running, logged, token } = await startPair(t, { types: { x: run } });
  await client.post({ type: "x" });
  const { signal } = await runs.nth(1);

  const store = await openBeside(t, daemon);
  assert.ok(await store.revokeWorker({ name: "press", revokedAt: Date.now() }));

  await assert.rejects(running, /the daemon refuses this worker: 40101/);
  assert.ok(signal.aborted);
  assert.equal((signal.reason as Error).message, "The daemon refuses this worker.");
  assert.ok(!logged.items.join("").includes(token));
});

const cycle: unknown[] = [];
cycle.push(cycle);

const NO_RESULTS: readonly [what: string, value: unknown, message: RegExp][] = [
  ["a BigInt", 1n, /^The function's result cannot be written as JSON: /],
  ["a cycle", cycle, /^The function's result cannot be written as JSON: /],
  ["a function", () => 1, /^The function's result has no form in JSON \(a function\)\.$/],
  ["too deep", JSON.parse("[".repeat(65) + "]".repeat(65)), /nested deeper than 64 levels/],
  [
    "over the daemon's limit",
    "x".repeat(3000),
    /^The worker's result is over 2048 bytes, the limit/,
  ],
  [
    "larger than a request",
    "x".repeat(3_000_000),
    /^The result is larger than the daemon takes\.$/,
  ],
  [
    "a getter that throws",
    {
      get a() {
        throw new Error("no");
      },
    },
    /cannot be written as JSON: no/,
  ],
];

for (const [what, value, message] of NO_RESULTS) {
  test(`a result that is ${what} fails its task, and the log says why`, async (t) => {
    const { client, logged } = await startPair(t, { types: { x: () => value } });

    const { message: said, ...error } = errorOf(
      await client.ended(await client.post({ type: "x" })),
    );

    assert.deepEqual(error, { state: "failed", status_code: 50010, detail: error.detail, runs: 1 });
    assert.match(String(said), message);
    await logged.nth(1, (line) => /the run failed|did not take all/.test(line));
  });
}

/** What handlers throw, and what the client sees of it. */
const THROWN: readonly [what: string, thrown: unknown, message: RegExp, detail: unknown][] = [
  ["an error", new RangeError("No disk."), /^No disk\.$/, { name: "RangeError" }],
  ["a text", "No disk.", /^No disk\.$/, {}],
  ["nothing", undefined, /without a message/, {}],
  ["a failure", new TaskFailure("No.", { detail: { path: "a" } }), /^No\.$/, { path: "a" }],
  [
    "a failure whose detail is no JSON",
    new TaskFailure("No.", { detail: Object(1n) as { a: 1 } }),
    /^No\.$/,
    {},
  ],
  [
    "a failure whose detail is endless",
    new TaskFailure("No.", { detail: { a: "x".repeat(2 ** 21) } }),
    /^No\.$/,
    {},
  ],
  [
    "something that cannot be read",
    new Proxy(
      {},
      {
        get() {
          throw new Error("trap");
        },
      },
    ),
    /without a message/,
    {},
  ],
];

for (const [what, thrown, message, detail] of THROWN) {
  test(`a handler that throws ${what} fails its task, and onError gets it`, async (t) => {
    const caught: unknown[] = [];
    const { client } = await startPair(t, {
      types: {
        x: () => {
          throw thrown;
        },
      },
      onError(error, task) {
        caught.push(error, task.type);
        throw new Error("onError's own");
      },
    });

    const shown = errorOf(await client.ended(await client.post({ type: "x" })));

    assert.match(String(shown.message), message);
    assert.deepEqual([shown.state, shown.detail], ["failed", detail]);
    assert.ok(caught[0] === thrown && caught[1] === "x");
  });
}

test("a failure says whether its task is run again; without a word the type decides", async (t) => {
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

test("a cancelled task aborts its handler, and the next one gets its place", async (t) => {
  const { run, runs } = openHandler();
  const { client } = await startPair(t, { types: { x: run } });
  const id = await client.post({ type: "x", input: 1 });
  const { signal } = await runs.nth(1);
  const next = await client.post({ type: "x", input: 2 });

  await client.cancel(id);
  const second = await runs.nth(2);
  second.end("two");

  assert.deepEqual([signal.aborted, second.input], [true, 2]);
  assert.equal((signal.reason as Error).message, "The task was cancelled.");
  assert.equal((await client.ended(next)).result, "two");
  assert.equal((await client.get(id)).state, "cancelled");
});

test("a task that the daemon takes back aborts its handler", async (t) => {
  const { run, runs } = openHandler();
  const { daemon, client, logged } = await startPair(t, { types: { x: run } });
  await client.post({ type: "x" });
  const { signal } = await runs.nth(1);

  const store = await openBeside(t, daemon);
  await store.setAccountDisabled({ login: daemon.account.login, disabledAt: Date.now() });
  await logged.nth(1, (line) => line.startsWith("the lease was lost"));

  assert.match((signal.reason as Error).message, /^The task is not this worker's any more/);
});

test("a daemon that is away gets the result when it is back, once, and keeps the lease", async (t) => {
  const { run, runs } = openHandler();
  const { daemon, client, logged } = await startPair(t, { types: { x: run } });
  const id = await client.post({ type: "x" });
  const { signal, end } = await runs.nth(1);

  const port = Number(new URL(daemon.url).port);
  const { folder, account } = daemon;
  await daemon.daemon.stop();
  end({ n: 1 });
  await logged.nth(1, (line) => line.startsWith("the daemon gives no usable answer"));
  const again = await startTestDaemon(t, { toml: TOML, folder, account, port });

  const { state, result, runs: count } = await client.ended(id);
  assert.deepEqual([state, result, count], ["completed", { n: 1 }, 1]);
  assert.equal(signal.aborted, false);
  await logged.nth(1, (line) => line.startsWith("completed"));
  assert.equal(runs.items.length, 1);
  assert.ok(again.url === daemon.url);
});

test("a stop claims no more, lets handlers end, and gives back what does not", async (t) => {
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

  assert.equal((second.signal.reason as Error).message, "The worker stops.");
  const shown = await Promise.all([slow, late].map((id) => client.get(id)));
  assert.deepEqual(
    shown.map(({ state, runs: count }) => [state, count]),
    [
      ["queued", 0],
      ["queued", 0],
    ],
  );
});

test("a handler that ignores its signal holds up no stop, and what it returns then counts for nothing", async (t) => {
  const started = Promise.withResolvers<void>();
  const { client, worker, running } = await startPair(t, {
    types: {
      x: () => {
        started.resolve();
        return new Promise(() => {});
      },
    },
  });
  const id = await client.post({ type: "x" });
  await started.promise;

  await worker.stop({ graceMs: 0 });
  await running;

  assert.equal((await client.get(id)).state, "queued");
});

test("a worker that was stopped before does not run, and none runs twice", async () => {
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

test("types that have their own places do not wait for each other's", async (t) => {
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

test("a handler's progress is shown while it runs", async (t) => {
  const told = Promise.withResolvers<void>();
  const { client } = await startPair(t, {
    types: {
      async x(task, { progress, signal }) {
        progress(2, "refused");
        progress(0.5, "half");
        await told.promise;
        return {
          id: task.id,
          type: task.type,
          tag: task.tag,
          input: task.input,
          signal: signal.aborted,
        };
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

test("a task of a type that was not asked for is given back", async (t) => {
  const asked = new Series<{ readonly operation: string; readonly body: string }>();
  const lease = { lease_id: "a", lease_expires_at: new Date(Date.now() + 60_000), run: 1 };
  const server = createServer((request, response) => {
    const operation = request.url?.slice("/v1/worker/".length) ?? "";
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      asked.add({ operation, body: String(Buffer.concat(chunks)) });
      const isFirst = asked.items.length === 1;
      if (operation === "claim" && !isFirst) return;
      const task = { id: "1", type: "toString", input: null, outcome: "ok", ...lease };
      response.end(JSON.stringify({ tasks: [task] }));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);

  startWorker(t, { ...GOOD, url: `http://127.0.0.1:${address.port}` });

  const { body } = await asked.nth(1, ({ operation }) => operation === "release");
  assert.equal(body, '{"tasks":[{"id":"1","lease_id":"a"}]}');
});

test("inputs have the types that their names were given", async (t) => {
  interface Inputs {
    readonly x: { readonly width: number };
    readonly y: string;
  }
  const daemon = await startTestDaemon(t, { toml: TOML });
  const token = await createTestWorker(daemon.file, TYPES);
  const settings: WorkerSettings<Inputs> = {
    url: new URL(daemon.url),
    token,
    types: { x: ({ input }) => input.width + 1, y: ({ input }) => input.toUpperCase() },
    concurrency: { x: 2 },
  };
  await using worker = createWorker(settings);
  const running = worker.run();
  const client = taskClient({ url: daemon.url, key: daemon.account.key });

  const x = await client.ended(await client.post({ type: "x", input: { width: 1 } }));
  const y = await client.ended(await client.post({ type: "y", input: "a" }));

  assert.deepEqual([x.result, y.result], [2, "A"]);
  await worker.stop();
  await running;
});

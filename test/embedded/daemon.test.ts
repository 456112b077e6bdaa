import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";

import { createDaemon, createVirtualClock } from "postbackd";
import type {
  DaemonAccount,
  DaemonSettings,
  EmbeddedDaemon,
  Logger,
  TaskFunction,
} from "postbackd";

import { temporaryFolder } from "../helpers/program.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";

const types = { double: ({ input }: { readonly input: unknown }) => 2 * Number(input) };

/** A daemon that is stopped after the test, without waiting for what still runs. */
async function start(
  t: TestContext,
  settings: Partial<DaemonSettings> = {},
): Promise<EmbeddedDaemon> {
  const daemon = await createDaemon({ types, ...settings });
  t.after(() => daemon.stop({ graceMs: 0 }));
  return daemon;
}

/** A client with the account's key, of a new account unless one is given. */
async function clientOf(daemon: EmbeddedDaemon, account?: DaemonAccount): Promise<TaskClient> {
  const { key } = account ?? (await daemon.account());
  return taskClient({ url: daemon.url, key });
}

describe("a function's task", () => {
  test("completes with its result, and fails with its error", async (t) => {
    const settings = {
      types: {
        ...types,
        fails() {
          throw new RangeError("too small");
        },
      },
    };
    const { post, ended } = await clientOf(await start(t, settings));

    const done = await ended(await post({ type: "double", input: 21 }));
    const failed = await ended(await post({ type: "fails" }));

    assert.deepEqual([done.state, done.result, done.status_code], ["completed", 42, 20_000]);
    assert.deepEqual([failed.state, failed.status_code], ["failed", 50_010]);
    assert.deepEqual(failed.error, { message: "too small", detail: { name: "RangeError" } });
  });

  test("has id, type, tag, marketplace and input", async (t) => {
    const seen: unknown[] = [];
    const daemon = await start(t, {
      types: { see: (task) => void seen.push(task) },
      config: { marketplaces: [{ code: "de", name: "Germany" }] },
    });
    const { post, ended } = await clientOf(daemon);

    const task = { type: "see", tag: "t", marketplace: "de" };
    const id = await post({ ...task, input: { deep: [1, null] } });
    const bare = await post({});
    await Promise.all([ended(id), ended(bare)]);

    assert.deepEqual(seen, [
      { ...task, id, input: { deep: [1, null] } },
      { id: bare, type: "see", tag: null, marketplace: null, input: null },
    ]);
  });

  test("times out by the given clock, runs again, and ends with 50401", async (t) => {
    const clock = createVirtualClock();
    const begun = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<AbortSignal>()];
    let runs = 0;
    const run: TaskFunction = (_task, { signal }) => {
      begun[runs++]?.resolve(signal);
      return new Promise(() => {});
    };
    const types = { hang: { run, timeout: "10s", retries: 1 } };
    const daemon = await start(t, { clock, types });
    const { post, ended } = await clientOf(daemon);
    const id = await post({});

    for (const { promise } of begun) {
      const signal = await promise;
      clock.advance(9_999);
      assert.equal(signal.aborted, false);
      clock.advance(1);
      assert.equal(signal.reason.name, "TimeoutError");
      // The second run is due a second after the first has failed.
      await daemon.idle();
      clock.advance(1000);
    }

    const task = await ended(id);
    assert.deepEqual([task.status_code, task.runs], [50_401, 2]);
  });

  test("gets the abort of a cancelling, and its late result is not kept", async (t) => {
    const begun = Promise.withResolvers<AbortSignal>();
    const release = Promise.withResolvers<string>();
    const daemon = await start(t, {
      types: {
        hang: (_task, { signal }) => {
          begun.resolve(signal);
          return release.promise;
        },
      },
    });
    const { cancel, post, get } = await clientOf(daemon);
    const id = await post({});
    const signal = await begun.promise;

    await cancel(id);
    release.resolve("late");
    await daemon.idle();

    assert.equal(signal.aborted, true);
    const task = await get(id);
    assert.deepEqual([task.state, task.result], ["cancelled", null]);
  });
});

describe("a named database", () => {
  test("is served by one daemon at a time, and keeps its tasks", async (t) => {
    const folder = temporaryFolder(t);
    const database = join(folder, "kept.db");
    const daemon = await start(t, { database });
    const account = await daemon.account("acme");
    const { post, ended } = await clientOf(daemon, account);
    const id = await post({ input: 4 });
    await ended(id);

    await assert.rejects(createDaemon({ types, database }), { name: "InstanceLockError" });
    await daemon.stop();
    const next = await start(t, { database });

    const { get } = await clientOf(next, account);
    assert.equal((await get(id)).result, 8);
    await next.stop();
    assert.ok(existsSync(database));
  });

  test("a task that a stop interrupted runs again, and counts two runs", async (t) => {
    const database = join(temporaryFolder(t), "again.db");
    const begun = Promise.withResolvers<AbortSignal>();
    const hang: DaemonSettings["types"][string] = (_task, { signal }) => {
      begun.resolve(signal);
      return new Promise(() => {});
    };
    const daemon = await start(t, { database, types: { job: hang } });
    const account = await daemon.account();
    const id = await (await clientOf(daemon, account)).post({});
    const signal = await begun.promise;
    await daemon.stop({ graceMs: 1 });
    assert.equal(signal.aborted, true);

    const next = await start(t, { database, types: { job: () => "done" } });
    const task = await (await clientOf(next, account)).ended(id);

    assert.deepEqual([task.result, task.runs], ["done", 2]);
  });
});

describe("account", () => {
  test("creates accounts with different logins, and further keys of an existing account", async (t) => {
    const daemon = await start(t);

    const [one, two] = [await daemon.account(), await daemon.account()];
    const first = await daemon.account("acme");
    const second = await daemon.account("acme");

    assert.notEqual(one.login, two.login);
    assert.match(first.webhookSecret, /^whsec_/);
    assert.deepEqual(second, { ...first, key: second.key });
    assert.notEqual(second.key, first.key);
    for (const account of [one, two, first, second]) {
      const { call } = await clientOf(daemon, account);
      assert.equal((await call("/v1/tasks")).status, 200);
    }
  });

  test("refuses an invalid login and a 21st key", async (t) => {
    const daemon = await start(t);
    const careless = daemon.account as (login: unknown) => Promise<unknown>;

    for (const login of ["", "a b", "x".repeat(65), "ü", 5, null, {}]) {
      await assert.rejects(careless(login), /login/);
    }
    for (let i = 0; i < 20; i++) await daemon.account("acme");
    await assert.rejects(daemon.account("acme"), /acme .*20/);
  });
});

test("workerToken creates one token for each name, for worker types only", async (t) => {
  const daemon = await start(t, { types: { ...types, far: { runner: "worker" } } });
  const careless = daemon.workerToken as (name: unknown, types: unknown) => Promise<unknown>;

  for (const name of ["", "a b", 5, "pbd_work_secret"]) {
    await assert.rejects(careless(name, ["far"]), /name/);
  }
  for (const none of [[], "far", undefined]) {
    await assert.rejects(careless("w", none), /types/);
  }
  await assert.rejects(daemon.workerToken("w", ["far", "double"]), /"double"/);
  const token = await daemon.workerToken("w", ["far", "far"]);
  assert.match(token, /^pbd_work_/);
  await assert.rejects(daemon.workerToken("w", ["far"]), /worker w /);

  const { post, ended } = await clientOf(daemon);
  const id = await post({ type: "far", input: 1 });
  const ask = async (path: string, body: object): Promise<unknown> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    return (await fetch(`${daemon.url}/v1/worker/${path}`, init)).json();
  };
  const claim = await ask("claim", { types: ["far"], max: 1, wait_seconds: 30 });
  const { tasks } = claim as { readonly tasks: readonly [{ readonly lease_id: string }] };
  await ask("complete", { tasks: [{ id, lease_id: tasks[0].lease_id, result: "from afar" }] });
  assert.equal((await ended(id)).result, "from afar");
});

test("a stop aborts long runs by the machine's clock, not by the given clock", async (t) => {
  const begun = Promise.withResolvers<void>();
  const hang = (): Promise<never> => {
    begun.resolve();
    return new Promise(() => {});
  };
  const clock = createVirtualClock();
  const daemon = await start(t, { clock, types: { hang } });
  await (await clientOf(daemon)).post({});
  await begun.promise;

  await Promise.all([daemon.stop({ graceMs: 1 }), daemon.stop()]);

  assert.deepEqual(clock.pending(), []);
  await assert.rejects(fetch(daemon.url));
});

test("a stop waits for runs in progress", async (t) => {
  const begun = Promise.withResolvers<void>();
  const release = Promise.withResolvers<string>();
  const database = join(temporaryFolder(t), "test.db");
  const daemon = await start(t, {
    database,
    clock: createVirtualClock(),
    types: {
      slow: () => {
        begun.resolve();
        return release.promise;
      },
    },
  });
  const account = await daemon.account();
  const id = await (await clientOf(daemon, account)).post({});
  await begun.promise;

  const stopped = daemon.stop();
  release.resolve("done");
  await stopped;

  await assert.rejects(daemon.account(), /closed/);
  // By the machine's clock the retention is over, and the start would erase the task.
  const next = await start(t, { database, clock: createVirtualClock() });
  const task = await (await clientOf(next, account)).get(id);
  assert.deepEqual([task.state, task.result, task.runs], ["completed", "done", 1]);
});

describe("the log", () => {
  test("has risks and errors of functions, and no keys", async (t) => {
    const lines: string[] = [];
    const note = (facts: object, message: string): void => {
      const { err } = { err: null, ...facts };
      lines.push(`${JSON.stringify(facts)} ${String(err)} ${message}`);
    };
    const log: Logger = { debug: note, info: note, warn: note, error: note };
    const fails = (): never => {
      throw new Error("boom");
    };
    const config = { webhooks: { allow: ["127.0.0.1"] } };
    const daemon = await start(t, { types: { fails }, config, log });
    const account = await daemon.account();
    const { post, ended } = await clientOf(daemon, account);
    await ended(await post({}));

    const text = lines.join("\n");
    assert.match(text, /127\.0\.0\.1/);
    assert.match(text, /Error: boom/);
    assert.ok(!text.includes(account.key) && !text.includes(account.webhookSecret));
  });

  test("a logger that throws and an unreadable error change no outcome", async (t) => {
    const note = (facts: object): never => {
      throw new Error(JSON.stringify(facts));
    };
    const fails = (): never => {
      throw Object.defineProperty(new Error(), "message", {
        get() {
          throw new Error("not to be read");
        },
      });
    };
    const log = { debug: note, info: note, warn: note, error: note };
    const { post, ended } = await clientOf(await start(t, { types: { fails }, log }));

    for (let i = 0; i < 2; i++) {
      assert.equal((await ended(await post({}))).status_code, 50_010);
    }
  });
});

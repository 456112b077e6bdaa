import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";

import { createDaemon, createVirtualClock } from "postbackd";
import type { DaemonAccount, DaemonSettings, EmbeddedDaemon, Logger } from "postbackd";

import { temporaryFolder } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
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
  test("completes with what it returns, and fails with what it throws", async (t) => {
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

  test("is given id, type, tag, marketplace and input", async (t) => {
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

  test("times out by the given clock, is run again, and ends with 50401", async (t) => {
    const clock = createVirtualClock();
    const begun = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<AbortSignal>()];
    let runs = 0;
    const daemon = await start(t, {
      clock,
      types: {
        hang: {
          run: (_task, { signal }) => {
            begun[runs++]?.resolve(signal);
            return new Promise(() => {});
          },
          ...{ timeout: "10s", retries: 1 },
        },
      },
    });
    const { post, ended, get } = await clientOf(daemon);
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
    assert.equal((await get(id)).error?.message, "The function ran past its timeout of 10 s.");
  });

  test("is told of its cancellation, and what it returns then is not kept", async (t) => {
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

  test("shows its progress while it runs", async (t) => {
    const begun = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const daemon = await start(t, {
      types: {
        slow: async (_task, { progress }) => {
          progress(0.5, "halfway");
          begun.resolve();
          await release.promise;
        },
      },
    });
    const { post, get, ended } = await clientOf(daemon);
    const id = await post({});
    await begun.promise;

    const shown = { ...(await get(id)) };
    release.resolve();

    assert.deepEqual(Reflect.get(shown, "progress"), { progress: 0.5, note: "halfway" });
    assert.equal(Reflect.get(await ended(id), "progress"), null);
  });

  test("runs beside others as often as its concurrency allows", async (t) => {
    const release = Promise.withResolvers<void>();
    let running = 0;
    let most = 0;
    const both = Promise.withResolvers<void>();
    const run = async (): Promise<void> => {
      most = Math.max(most, ++running);
      if (running === 2) both.resolve();
      await release.promise;
      running--;
    };
    const daemon = await start(t, { types: { slow: { run, concurrency: 2 } } });
    const { post, ended } = await clientOf(daemon);
    const ids = await Promise.all([1, 2, 3, 4, 5].map(() => post({})));
    await both.promise;
    release.resolve();
    await Promise.all(ids.map(ended));

    assert.equal(most, 2);
  });
});

test("three retries of a postback take 21 minutes of the given clock, and hardly any time", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const clock = createVirtualClock();
  const daemon = await start(t, { clock, config: { webhooks: { allow: ["127.0.0.1"] } } });
  const { post } = await clientOf(daemon);
  const begin = clock.now();
  await post({ input: 1, postback_url: receiver.url() });

  for (const minutes of [1, 5, 15]) {
    await daemon.idle();
    clock.advance(minutes * 60_000 - 1);
    const before = receiver.requests.length;
    await daemon.idle();
    assert.equal(receiver.requests.length, before);
    clock.advance(1);
  }
  await daemon.idle();

  assert.deepEqual(
    receiver.requests.map(({ headers }) => headers["x-attempt"]),
    ["1", "2", "3", "4"],
  );
  assert.equal(clock.now() - begin, 21 * 60_000);
});

describe("a throwaway database", () => {
  test("is nobody else's: daemons side by side know nothing of each other", async (t) => {
    const daemons = await Promise.all([start(t), start(t), start(t)]);
    const [first, second] = await Promise.all(daemons.map((daemon) => clientOf(daemon)));
    assert.ok(first !== undefined && second !== undefined);
    const id = await first.post({ input: 1 });

    assert.equal(new Set(daemons.map(({ port }) => port)).size, 3);
    const own = await second.call(`/v1/tasks/task_get/${id}`);
    assert.equal(own.status, 404);
    const foreign = await fetch(`${daemons[1]?.url}/v1/tasks`, {
      headers: { authorization: `Bearer ${(await daemons[0]?.account())?.key}` },
    });
    assert.equal(foreign.status, 401);
    await daemons[0]?.stop();
    assert.equal((await second.ended(await second.post({ input: 2 }))).result, 4);
  });
});

describe("a named database", () => {
  test("is served by one daemon at a time, and keeps what it knows", async (t) => {
    const folder = temporaryFolder(t);
    const database = join(folder, "kept.db");
    const daemon = await start(t, { database });
    const account = await daemon.account("acme");
    const { post, ended } = await clientOf(daemon, account);
    const id = await post({ input: 4 });
    await ended(id);

    await assert.rejects(createDaemon({ types, database }), {
      ...{
        name: "InstanceLockError",
        message: /kept\.db is already served by process \d+ at http/,
      },
    });
    await daemon.stop();
    const next = await start(t, { database });

    const { get } = await clientOf(next, account);
    assert.equal((await get(id)).result, 8);
    await next.stop();
    assert.ok(existsSync(database));
  });

  test("a task that was under way at the stop runs again after it, and counts two runs", async (t) => {
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
  test("makes accounts with logins of their own, and further keys of one that exists", async (t) => {
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

  test("refuses what is no login, and a 21st key", async (t) => {
    const daemon = await start(t);
    const careless = daemon.account as (login: unknown) => Promise<unknown>;

    for (const login of ["", "a b", "x".repeat(65), "ü", 5, null, {}]) {
      await assert.rejects(careless(login), /a login must be 1 to 64 characters/);
    }
    for (let i = 0; i < 20; i++) await daemon.account("acme");
    await assert.rejects(daemon.account("acme"), /acme has 20 active keys/);
  });
});

test("workerToken makes tokens for worker types alone, one for each name", async (t) => {
  const daemon = await start(t, { types: { ...types, far: { runner: "worker" } } });
  const careless = daemon.workerToken as (name: unknown, types: unknown) => Promise<unknown>;

  for (const name of ["", "a b", 5, "pbd_work_secret"]) {
    await assert.rejects(careless(name, ["far"]), /a worker's name must be 1 to 64 characters/);
  }
  for (const none of [[], "far", undefined]) {
    await assert.rejects(careless("w", none), /give the types/);
  }
  await assert.rejects(daemon.workerToken("w", ["far", "double"]), /no "double" with runner/);
  const token = await daemon.workerToken("w", ["far", "far"]);
  assert.match(token, /^pbd_work_/);
  await assert.rejects(daemon.workerToken("w", ["far"]), /there is a worker w already/);

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

test("a stop breaks off what takes too long by the machine's clock, whatever the given one shows", async (t) => {
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

test("a stop waits for what is under way", async (t) => {
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
  // By the same clock: by the machine's the task's retention is over, and the start erases it.
  const next = await start(t, { database, clock: createVirtualClock() });
  const task = await (await clientOf(next, account)).get(id);
  assert.deepEqual([task.state, task.result, task.runs], ["completed", "done", 1]);
});

describe("the log", () => {
  test("tells a given logger of risks and of what functions throw, never of keys", async (t) => {
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
    assert.match(text, /webhooks may go to this target/);
    assert.match(text, /Error: boom a function threw/);
    assert.ok(!text.includes(account.key) && !text.includes(account.webhookSecret));
  });

  test("a logger that throws, and an error that throws when it is read, harm nothing", async (t) => {
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

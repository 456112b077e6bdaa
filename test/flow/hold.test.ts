import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createDaemon, createVirtualClock } from "postbackd";
import type { EmbeddedDaemon, TypeSettings, VirtualClock } from "postbackd";

import { tempFolder } from "../helpers/daemon.ts";
import { createGate, type Gate } from "../helpers/receiver.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";
import { atStore } from "../http/session-requests.ts";
import { KINDS, functionKind, type Kind } from "./run-kinds.ts";

/** What disabling an account, by another process, does to its tasks. */

interface World {
  readonly clock: VirtualClock;
  readonly file: string;
  readonly daemon: EmbeddedDaemon;
  readonly ada: TaskClient;
  readonly bob: TaskClient;
  /** As another process does it. */
  disable(): Promise<void>;
  enable(): Promise<void>;
  /** What stands in the file of each of ada's tasks: she is not let in while she is disabled. */
  rows(ids: readonly string[]): Promise<readonly (readonly [state: string, runs: number])[]>;
  /** Ends the daemon and starts another one on its file. */
  restart(): Promise<EmbeddedDaemon>;
}

async function start(t: TestContext, type: TypeSettings): Promise<World> {
  const clock = createVirtualClock();
  const file = join(tempFolder(t), "test.db");
  const serve = async (): Promise<EmbeddedDaemon> => {
    const daemon = await createDaemon({ types: { x: type }, clock, database: file });
    t.after(() => daemon.stop({ graceMs: 0 }));
    return daemon;
  };
  const daemon = await serve();
  const set = (disabledAt: number | null) => async (): Promise<void> => {
    await atStore(file, (store) => store.setAccountDisabled({ login: "ada", disabledAt }));
  };
  const client = async (login: string): Promise<TaskClient> =>
    taskClient({ url: daemon.url, key: (await daemon.account(login)).key });
  return {
    ...{ clock, file, daemon, ada: await client("ada"), bob: await client("bob") },
    disable: set(1),
    enable: set(null),
    rows: (ids) =>
      atStore(file, async (store) => {
        const { accountId } = (await store.findAccount("ada")) ?? assert.fail();
        const found = await Promise.all(ids.map((id) => store.findTask({ accountId, id })));
        return found.map((each) => [each?.task.state ?? "", each?.task.runs ?? -1] as const);
      }),
    async restart() {
      await daemon.stop({ graceMs: 0 });
      return serve();
    },
  };
}

/** Lets a second pass, in which the daemon looks who was disabled or enabled. */
async function nextSecond({ clock }: World, daemon: EmbeddedDaemon): Promise<void> {
  clock.advance(1000);
  await daemon.idle();
}

async function finishNext(kind: Kind, daemon: EmbeddedDaemon, times = 1): Promise<void> {
  for (let i = 0; i < times; i++) await (await kind.next(daemon)).finish();
}

for (const [name, makeKind] of Object.entries(KINDS)) {
  test(`the ${name} task of a disabled account is told to stop, what it has queued or delayed waits, and each runs once when it is enabled`, async (t) => {
    const kind = await makeKind(t);
    const world = await start(t, kind.type);
    const { clock, daemon, ada, bob, rows } = world;
    const running = await ada.post({ type: "x" });
    const run = await kind.next(daemon);
    const startAt = new Date(clock.now() + 60_000).toISOString();
    const all = [
      running,
      await ada.post({ type: "x" }),
      await ada.post({ type: "x", start_at: startAt }),
    ];
    const other = await bob.post({ type: "x" });

    await world.disable();
    clock.advance(1000);
    await run.told("disabled");
    // The place is bob's at once, though ada's tasks are older.
    await finishNext(kind, daemon);
    const done = await bob.ended(other);
    clock.advance(120_000);
    await daemon.idle();

    assert.deepEqual([done.state, done.runs], ["completed", 1]);
    assert.equal((await ada.call("/v1/tasks/tasks_ready")).status, 401);
    assert.deepEqual(await rows(all), [
      ["queued", 0],
      ["queued", 0],
      ["queued", 0],
    ]);

    await world.enable();
    clock.advance(1000);
    await finishNext(kind, daemon, 3);
    for (const id of all) {
      const { state, runs } = await ada.ended(id);
      assert.deepEqual([state, runs], ["completed", 1]);
    }
  });
}

test("an account that is disabled and enabled within a second misses nothing: what ran goes on, what a claim has passed over runs", async (t) => {
  const kind = await functionKind();
  const world = await start(t, kind.type);
  const { daemon, ada } = world;
  const running = await ada.post({ type: "x" });
  const run = await kind.next(daemon);
  const queued = await ada.post({ type: "x" });

  await world.disable();
  // The claim that follows the end of the run passes over the other task, and nobody wakes it.
  run.finish();
  await daemon.idle();
  assert.deepEqual(await world.rows([running, queued]), [
    ["completed", 1],
    ["queued", 0],
  ]);
  await world.enable();
  world.clock.advance(1000);
  await finishNext(kind, daemon);

  assert.equal((await ada.ended(queued)).state, "completed");
});

test("an account that is disabled while the daemon is down, or was before, stays held over the start", async (t) => {
  const kind = await functionKind();
  const world = await start(t, kind.type);
  const ids = [await world.ada.post({ type: "x" }), await world.ada.post({ type: "x" })];
  const run = await kind.next(world.daemon);
  await world.disable();
  world.clock.advance(1000);
  await run.told("disabled");
  await world.daemon.idle();

  const daemon = await world.restart();
  await nextSecond(world, daemon);
  await nextSecond(world, daemon);
  assert.deepEqual(await world.rows(ids), [
    ["queued", 0],
    ["queued", 0],
  ]);
  await world.enable();
  world.clock.advance(1000);
  await finishNext(kind, daemon, 2);
  await daemon.idle();

  assert.deepEqual(await world.rows(ids), [
    ["completed", 1],
    ["completed", 1],
  ]);
});

test("the retry of a disabled account waits, and its failed run stays counted", async (t) => {
  const failed: Gate = createGate();
  let runs = 0;
  const world = await start(t, {
    run: () => {
      runs++;
      if (runs > 1) return "done";
      failed.open();
      throw new Error("not yet");
    },
    retries: 1,
  });
  const id = await world.ada.post({ type: "x" });
  await failed.opened;
  await world.daemon.idle();

  await world.disable();
  world.clock.advance(60_000);
  await world.daemon.idle();
  assert.deepEqual(await world.rows([id]), [["queued", 1]]);
  await world.enable();
  world.clock.advance(1000);

  const ended = await world.ada.ended(id);
  assert.deepEqual([ended.state, ended.runs, runs], ["completed", 2, 2]);
});

import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createDaemon, createVirtualClock } from "postbackd";
import type { EmbeddedDaemon, TypeSettings, VirtualClock } from "postbackd";

import type { SuspendedWork } from "../../src/domain/account/account.ts";
import { tempFolder } from "../helpers/daemon.ts";
import { runProgram } from "../helpers/program.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";
import { atStore } from "../http/session-requests.ts";
import { openHeldProcesses } from "../run/command-run.ts";
import { holdType, openPlace } from "./place.ts";
import { KINDS, functionKind, type Kind } from "./run-kinds.ts";

interface World {
  readonly clock: VirtualClock;
  readonly file: string;
  readonly daemon: EmbeddedDaemon;
  readonly ada: TaskClient;
  readonly bob: TaskClient;
  /** Disables ada as another process does. */
  disable(): Promise<void>;
  enable(): Promise<void>;
  /** The tasks of ada, read from the file: the API rejects her key while she is disabled. */
  rows(ids: readonly string[]): Promise<readonly (readonly [state: string, runs: number])[]>;
}

async function start(t: TestContext, type: TypeSettings): Promise<World> {
  const clock = createVirtualClock();
  const file = join(tempFolder(t), "test.db");
  const daemon = await createDaemon({ types: { x: type }, clock, database: file });
  t.after(() => daemon.stop({ graceMs: 0 }));
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
  };
}

async function finishNext(kind: Kind, daemon: EmbeddedDaemon, times = 1): Promise<void> {
  for (let i = 0; i < times; i++) await (await kind.next(daemon)).finish();
}

for (const [name, makeKind] of Object.entries(KINDS)) {
  test(`a disabled account's ${name} task stops, its queued and delayed tasks wait, and each runs once after it is enabled`, async (t) => {
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
    // Bob's task gets the slot, though ada's tasks are older.
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

test("an account that is enabled within a second of being disabled keeps its run and loses no queued task", async (t) => {
  const kind = await functionKind();
  const world = await start(t, kind.type);
  const { daemon, ada } = world;
  const running = await ada.post({ type: "x" });
  const run = await kind.next(daemon);
  const queued = await ada.post({ type: "x" });

  await world.disable();
  // The claim after the end of the run skips the other task.
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

test("'admin account disable' stops running commands and prints the suspended work, and 'enable' runs each task once", async (t) => {
  const held = await openHeldProcesses(t);
  const place = await openPlace(t, `${holdType(held)}concurrency = 2\n`, "ada");
  const { client } = await place.start();
  const admin = async (words: string): Promise<string> => {
    const args = ["admin", "account", ...words.split(" ")];
    const { code, stdout, stderr } = await runProgram(t, args, place);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
    return stdout;
  };
  const suspended = async (): Promise<SuspendedWork | null | undefined> =>
    JSON.parse(await admin("list --json")).accounts[0]?.held;
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.push(await client.post({}));
  const running = [await held.next(), await held.next()];

  const disabled = await admin("disable ada");
  await Promise.all(running.map(({ ended }) => ended));

  assert.match(disabled, /\bada\b[^]* 3 queued tasks[^]* 2 running tasks[^]*enable ada/);
  // A process ends before its task is back in the queue.
  let waits = await suspended();
  while (waits?.running !== 0) waits = await suspended();
  assert.deepEqual(waits, { queued: 5, running: 0, webhooks: 0 });
  assert.match(await admin("list"), /\nada .* 5 queued tasks\n$/);

  const enabled = await admin("enable ada");
  for (const _ of ids) (await held.next()).socket.end();

  assert.match(enabled, /5 queued tasks/);
  for (const id of ids) {
    const { state, runs } = await client.ended(id);
    assert.deepEqual([state, runs], ["completed", 1]);
  }
  assert.equal(await suspended(), null);
});

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { openAdminStore, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { claim, createTestWorker, outcomesOf, type ClaimedTask } from "./worker-requests.ts";

/** A lease is its worker's own: whoever else knows its id can do nothing with it. */

const TOML = '[types.print]\nrunner = "worker"\n[types.other]\nrunner = "worker"\n';

/** A daemon with a task of type `print` that the worker `press` holds. */
async function startHeld(t: TestContext) {
  const clock = createFakeClock({ now: Date.parse("2030-01-31T09:00:00.000Z") });
  const daemon = await startTestDaemon(t, { toml: TOML, clock });
  const press = { ...daemon, token: await createTestWorker(daemon.file, ["print"]) };
  const id = (await daemon.post({ type: "print" })).tasks[0]?.id ?? "";
  const [held] = await claim(press, { types: ["print"] });
  assert.equal(held?.id, id);
  return { daemon, clock, press, held };
}

async function revokeWorker({ file }: TestDaemon, name: string): Promise<void> {
  const store = await openAdminStore(file);
  await store.revokeWorker({ name, revokedAt: Date.now() });
  await store.close();
}

/** What each thing that can be done to a lease is answered, the harmless first. */
async function attempts(
  called: { readonly url: string; readonly token: string },
  held: ClaimedTask,
) {
  const ref = { id: held.id, lease_id: held.lease_id };
  const beat = { leases: [{ ...ref, progress: { progress: 0.5, note: "not mine" } }] };
  const outcomes = [
    await outcomesOf(called, "heartbeat", beat),
    await outcomesOf(called, "complete", { tasks: [{ ...ref, result: "forged" }] }),
    await outcomesOf(called, "fail", { tasks: [{ ...ref, message: "forged", retry: false }] }),
    await outcomesOf(called, "release", { tasks: [ref] }),
  ];
  return outcomes.map(([first]) => first?.outcome);
}

test("a lease of another worker answers lost like an unknown one, and nothing comes of it", async (t) => {
  const { daemon, press, held } = await startHeld(t);
  const strangers = [
    await createTestWorker(daemon.file, ["other"], "stranger"),
    await createTestWorker(daemon.file, ["print"], "colleague"),
  ];

  for (const token of strangers) {
    assert.deepEqual(await attempts({ ...daemon, token }, held), Array(4).fill("lost"));
  }

  const { tasks } = (await (await daemon.call("/v1/tasks")).json()) as {
    readonly tasks: readonly { readonly state: string; readonly progress: unknown }[];
  };
  assert.deepEqual(
    tasks.map(({ state, progress }) => [state, progress]),
    [["running", null]],
  );
  const result = { id: held.id, lease_id: held.lease_id, result: "mine" };
  const [own] = await outcomesOf(press, "complete", { tasks: [result] });
  assert.equal(own?.outcome, "ok");
  assert.equal((await daemon.get(held.id)).result, "mine");
});

test("a lease of another worker answers lost when it has ended, ran out or was cancelled too", async (t) => {
  const { daemon, clock, press, held } = await startHeld(t);
  const token = await createTestWorker(daemon.file, ["print"], "colleague");
  const lost = Array(4).fill("lost");

  clock.advance(60_000);
  await daemon.daemon.idle();
  assert.equal((await daemon.get(held.id)).state, "queued");
  assert.deepEqual(await attempts({ ...daemon, token }, held), lost);
  await daemon.call(`/v1/tasks/task_cancel/${held.id}`, { method: "POST" });
  assert.deepEqual(await attempts({ ...daemon, token }, held), lost);
  assert.deepEqual(await attempts(press, held), Array(4).fill("cancelled"));
});

test("a token made anew under the name of a revoked one does not hold its leases", async (t) => {
  const { daemon, held } = await startHeld(t);
  await revokeWorker(daemon, "press");
  const token = await createTestWorker(daemon.file, ["print"]);

  assert.deepEqual(await attempts({ ...daemon, token }, held), Array(4).fill("lost"));
});

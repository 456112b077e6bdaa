import assert from "node:assert/strict";
import { test } from "node:test";

import { createTestAccount, type TestAccount, type TestDaemon } from "../helpers/daemon.ts";
import { NOW, startOrdered, type OrderSetup } from "./run-order.ts";

// So that all that was posted is in the queue before the first of it starts.
const START_AT = new Date(NOW + 1000).toISOString();

async function postAs(daemon: TestDaemon, { key }: TestAccount, tasks: object[]): Promise<void> {
  const body = JSON.stringify(tasks.map((task) => ({ ...task, start_at: START_AT })));
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await daemon.call("/v1/tasks/task_post", { method: "POST", headers, body });
  assert.equal(response.status, 200);
}

async function runAll({ clock, daemon, order }: OrderSetup): Promise<string> {
  clock.advance(1000);
  await daemon.daemon.idle();
  return order();
}

test("accounts take turns, whatever the one has queued and whatever its priorities", async (t) => {
  const setup = await startOrdered(t);
  const { daemon } = setup;
  const other = await createTestAccount(daemon.file, "other");
  const many = Array.from({ length: 30 }, () => ({ tag: "a", priority: 9 }));
  await postAs(daemon, daemon.account, many);
  await postAs(daemon, other, [{ tag: "b" }, { tag: "b" }, { tag: "b" }]);
  assert.equal(await runAll(setup), `ababab${"a".repeat(27)}`);
});

test("within an account the higher priority comes first, then the older task, and nobody else is asked", async (t) => {
  const setup = await startOrdered(t);
  const { daemon } = setup;
  const other = await createTestAccount(daemon.file, "other");
  await postAs(daemon, daemon.account, [
    { tag: "d" },
    { tag: "b", priority: 5 },
    { tag: "a", priority: 9 },
    { tag: "c", priority: 5 },
  ]);
  await postAs(daemon, other, [{ tag: "y" }, { tag: "z" }, { tag: "x", priority: 1 }]);
  assert.equal(await runAll(setup), "axbyczd");
});

test("three accounts are served alike, and those that have no more leave their turns to the others", async (t) => {
  const setup = await startOrdered(t);
  const { daemon } = setup;
  const accounts = [daemon.account];
  for (const login of ["second", "third"]) {
    accounts.push(await createTestAccount(daemon.file, login));
  }
  for (const [index, account] of accounts.entries()) {
    const tag = "abc"[index] ?? "";
    await postAs(
      daemon,
      account,
      Array.from({ length: 4 - index }, () => ({ tag })),
    );
  }
  assert.equal(await runAll(setup), "abcabcaba");
});

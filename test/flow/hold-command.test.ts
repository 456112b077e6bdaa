import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import type { SuspendedWork } from "../../src/domain/account/account.ts";
import { createTestAccount } from "../helpers/daemon.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { taskClient } from "../helpers/task-client.ts";
import { node } from "../run/command-run.ts";
import { openHeldProcesses } from "../run/held-process.ts";

const CONCURRENCY = 2;
const TASKS = 5;

async function account(t: TestContext, cwd: string, words: string): Promise<string> {
  const { code, stdout, stderr } = await runProgram(t, ["admin", "account", ...words.split(" ")], {
    cwd,
  });
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  return stdout;
}

async function heldOf(t: TestContext, cwd: string): Promise<SuspendedWork | null> {
  const said = JSON.parse(await account(t, cwd, "list --json")) as {
    readonly accounts: readonly { readonly held: SuspendedWork | null }[];
  };
  return said.accounts[0]?.held ?? null;
}

test("'admin account disable' stops running commands and prints the suspended work, and 'enable' runs each task once", async (t) => {
  const held = await openHeldProcesses(t);
  const cwd = temporaryFolder(t);
  const command = JSON.stringify(node("hold.mjs", held.socketPath));
  writeFileSync(
    join(cwd, "postbackd.toml"),
    `[types.hold]\ncommand = ${command}\nconcurrency = ${CONCURRENCY}\n`,
  );
  const { key } = await createTestAccount(join(cwd, "postbackd.db"), "ada");
  const { url } = await startProgram(t, ["start", "--port", "0"], { cwd }).ready;
  const ada = taskClient({ url, key });
  const ids: string[] = [];
  for (let i = 0; i < TASKS; i++) ids.push(await ada.post({ type: "hold" }));
  const running = [];
  for (let i = 0; i < CONCURRENCY; i++) running.push(await held.next());

  const disabled = await account(t, cwd, "disable ada");
  await Promise.all(running.map(({ ended }) => ended));

  assert.match(disabled, /\bada\b[^]* 3 queued tasks[^]* 2 running tasks[^]*enable ada/);
  // A process ends before its task is back in the queue.
  const queued = { queued: TASKS, running: 0, webhooks: 0 };
  let waits = await heldOf(t, cwd);
  while (waits?.running !== 0) waits = await heldOf(t, cwd);
  assert.deepEqual(waits, queued);
  assert.match(await account(t, cwd, "list"), /\nada .* 5 queued tasks\n$/);

  const enabled = await account(t, cwd, "enable ada");
  for (let i = 0; i < TASKS; i++) (await held.next()).socket.end();

  assert.match(enabled, /5 queued tasks/);
  for (const id of ids) {
    const { state, runs } = await ada.ended(id);
    assert.deepEqual([state, runs], ["completed", 1]);
  }
  assert.equal(await heldOf(t, cwd), null);
});

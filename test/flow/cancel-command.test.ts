import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { taskClient } from "../helpers/task-client.ts";
import { node } from "../run/command-run.ts";
import { openHeldProcesses } from "../run/held-process.ts";

test("'admin task cancel' stops a running command, ends a wait for its task, and frees its slot", async (t) => {
  const held = await openHeldProcesses(t);
  const cwd = temporaryFolder(t);
  const command = JSON.stringify(node("hold.mjs", held.socketPath));
  writeFileSync(
    join(cwd, "postbackd.toml"),
    `[types.hold]\ncommand = ${command}\nconcurrency = 1\n`,
  );
  const { key } = await createTestAccount(join(cwd, "postbackd.db"), "ada");
  const { url } = await startProgram(t, ["start", "--port", "0"], { cwd }).ready;
  const ada = taskClient({ url, key });
  const id = await ada.post({ type: "hold" });
  const running = await held.next();
  const next = await ada.post({ type: "hold" });
  const waiting = fetch(`${url}/v1/tasks/task_get/${id}`, {
    headers: { authorization: `Bearer ${key}`, prefer: "wait=60" },
  });

  const { code, stderr } = await runProgram(t, ["admin", "task", "cancel", id], { cwd });

  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  await running.ended;
  const { tasks } = (await (await waiting).json()) as {
    readonly tasks: readonly { state: string }[];
  };
  assert.equal(tasks[0]?.state, "cancelled");
  (await held.next()).socket.end();
  assert.equal((await ada.ended(next)).state, "completed");
});

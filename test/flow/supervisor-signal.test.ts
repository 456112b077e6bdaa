import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { taskClient } from "../helpers/task-client.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { node } from "../run/command-run.ts";
import { openHeldProcesses } from "../run/held-process.ts";

/** A folder with a type whose command prints its pid and stays; `toml` has more types. */
async function setUp(t: TestContext, toml = "") {
  const cwd = temporaryFolder(t);
  const held = await openHeldProcesses(t);
  const command = node("hold.mjs", held.socketPath);
  const type = `[types.hold]\ncommand = ${JSON.stringify(command)}\n`;
  writeFileSync(join(cwd, "postbackd.toml"), type + toml);
  const file = join(cwd, "postbackd.db");
  const { key } = await createTestAccount(file);
  return {
    cwd,
    file,
    held,
    command,
    async start() {
      const program = startProgram(t, ["start", "--port", "0"], { cwd });
      const { url } = await program.ready;
      return { program, url, client: taskClient({ url, key }) };
    },
  };
}

test("a command that a supervisor ends together with the daemon runs again after the restart", async (t) => {
  const { start, held } = await setUp(t);
  const { program, client } = await start();
  const id = await client.post({ type: "hold" });
  const pid = Number(await (await held.next()).line());

  // As systemd does with KillMode=control-group: first the main process, then the others.
  program.kill("SIGTERM");
  process.kill(pid, "SIGTERM");
  assert.deepEqual(await program.exit, { code: 0, signal: null });
  const again = await start();
  const second = await held.next();

  assert.notEqual(Number(await second.line()), pid);
  assert.equal((await again.client.get(id)).state, "running");
});

test("a worker that a supervisor ends together with its command releases the task", async (t) => {
  const toml = '[types.x]\nrunner = "worker"\nlease = "30s"\n';
  const { start, held, file, cwd, command } = await setUp(t, toml);
  const { client, url } = await start();
  const args = ["worker", "--url", url, "--type", "x", "--", ...command];
  const env = { POSTBACKD_TOKEN: await createTestWorker(file, ["x"]) };
  const worker = startProgram(t, args, { cwd, env });
  const id = await client.post({ type: "x" });
  const pid = Number(await (await held.next()).line());

  worker.kill("SIGTERM");
  process.kill(pid, "SIGTERM");
  await worker.exit;

  assert.equal((await client.get(id)).state, "queued");
});

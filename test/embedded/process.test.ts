import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { createDaemon } from "postbackd";

import { isThere } from "../helpers/process.ts";
import { runProgram, startProgram, temporaryFolder, type Finished } from "../helpers/program.ts";
import { taskClient } from "../helpers/task-client.ts";
import { node, openHeldProcesses } from "../run/command-run.ts";

/** Runs a program of test/fixtures/embedded with an environment and a folder that a daemon would refuse. */
async function run(
  t: TestContext,
  name: string,
): Promise<Finished & { readonly temporary: string }> {
  const cwd = temporaryFolder(t);
  const temporary = join(cwd, "tmp");
  mkdirSync(temporary);
  writeFileSync(join(cwd, "postbackd.toml"), "port = 'none'\n[types.x]\nwrong = 1");
  const file = fileURLToPath(new URL(`../fixtures/embedded/${name}.ts`, import.meta.url));
  const finished = await runProgram(t, [], {
    cwd,
    command: [process.execPath, file],
    env: { TMPDIR: temporary, POSTBACKD_PORT: "none", POSTBACKD_COLOUR: "blue" },
  });
  assert.deepEqual(readdirSync(cwd).toSorted(), ["postbackd.toml", "tmp"]);
  return { ...finished, temporary };
}

function databases(folder: string): readonly string[] {
  return readdirSync(folder).filter((name) => name.startsWith("postbackd-"));
}

test("daemons in a program use neither its environment nor its folder, and leave nothing after a stop", async (t) => {
  const { code, stdout, stderr } = await run(t, "stopped");

  assert.deepEqual([code, stderr], [0, ""]);
  const found = JSON.parse(stdout);
  assert.deepEqual(
    found.modes,
    Array.from({ length: 12 }, () => 0o700),
  );
  assert.deepEqual(found.during, { ...found.before, exit: (found.before.exit ?? 0) + 1 });
  assert.deepEqual([found.after, found.left], [found.before, []]);
  assert.equal(found.servers, 12);
});

test("a program that ends without a stop of its daemon leaves no database", async (t) => {
  const { code, stdout, stderr, temporary } = await run(t, "forgotten");

  assert.deepEqual([code, stdout, stderr], [7, "", ""]);
  assert.deepEqual(databases(temporary), []);
});

test("12 successive daemons leave no descriptor, thread, timer or listener", async (t) => {
  const { code, stdout, stderr, temporary } = await run(t, "cycles");

  assert.deepEqual([code, stderr], [0, ""]);
  const { first, last } = JSON.parse(stdout);
  assert.deepEqual(last, first);
  assert.deepEqual(databases(temporary), []);
});

test("a task that the kill of its program interrupted runs again, and counts two runs", async (t) => {
  const cwd = temporaryFolder(t);
  const database = join(cwd, "kept.db");
  const file = fileURLToPath(new URL("../fixtures/embedded/held.ts", import.meta.url));
  const command = [process.execPath, file] as const;
  const program = startProgram(t, [database], { cwd, command: [...command] });
  const { id, key } = (await program.ready) as unknown as Record<"id" | "key", string>;
  program.kill("SIGKILL");
  await program.exit;

  const daemon = await createDaemon({ database, types: { hold: () => 7 } });
  t.after(() => daemon.stop({ graceMs: 0 }));
  const task = await taskClient({ url: daemon.url, key }).ended(id);

  assert.deepEqual([task.state, task.result, task.runs], ["completed", 7, 2]);
});

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  test(`${signal} of the program ends the commands of its daemon`, async (t) => {
    const held = await openHeldProcesses(t);
    const file = fileURLToPath(new URL("../fixtures/embedded/command.ts", import.meta.url));
    const program = startProgram(t, node("hold.mjs", held.socketPath, "ignore-term"), {
      command: [process.execPath, file],
    });
    const hold = await held.next();
    const pid = Number(await hold.line());
    t.after(() => {
      if (isThere(pid)) process.kill(pid, "SIGKILL");
    });

    program.kill(signal);

    assert.deepEqual(await program.exit, { code: null, signal });
    await hold.ended;
  });
}

import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { readProcess } from "../../src/run/processes.ts";
import { createTestAccount, type ShownTask, type TestAccount } from "../helpers/daemon.ts";
import { isThere } from "../helpers/process.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { node } from "../run/command-run.ts";
import { openHeldProcesses, type HeldProcess, type HeldProcesses } from "../run/held-process.ts";

const skip = existsSync("/proc/self/environ") ? false : "this system has no /proc";

interface Place {
  readonly folder: string;
  readonly file: string;
  readonly account: TestAccount;
  readonly held: HeldProcesses;
}

/** A folder with a type whose command holds a connection, and an account. */
async function makePlace(t: TestContext, ...hold: readonly [string, ...string[]]): Promise<Place> {
  const folder = temporaryFolder(t);
  const held = await openHeldProcesses(t);
  const [script, ...args] = hold;
  const command = JSON.stringify(node(script, held.socketPath, ...args));
  writeFileSync(join(folder, "postbackd.toml"), `[types.hold]\ncommand = ${command}\n`);
  const file = join(folder, "postbackd.db");
  return { folder, file, held, account: await createTestAccount(file) };
}

function start(t: TestContext, { folder }: Place, env: Record<string, string> = {}): Program {
  return startProgram(t, ["start", "--port", "0"], { cwd: folder, env });
}

/** Makes a request of the account, a POST if it has a body, and returns the task. */
async function call(
  { program, place: { account } }: { readonly program: Program; readonly place: Place },
  path: string,
  body?: unknown,
): Promise<ShownTask> {
  const { url } = await program.ready;
  const headers = { authorization: `Bearer ${account.key}`, "content-type": "application/json" };
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const response = await fetch(`${url}/v1/tasks/${path}`, { headers, ...sent });
  assert.equal(response.status, 200);
  const { tasks } = (await response.json()) as { readonly tasks: readonly ShownTask[] };
  return tasks[0] ?? assert.fail();
}

/** The pid of the process behind a connection. The test ends the process. */
async function pidOf(t: TestContext, hold: HeldProcess): Promise<number> {
  const pid = Number(await hold.line());
  t.after(() => {
    if (isThere(pid)) process.kill(pid, "SIGKILL");
  });
  return pid;
}

function parentOf(pid: number): number {
  return readProcess(pid)?.parentPid ?? assert.fail();
}

test(
  "kill -9 of the daemon ends its commands, also a command that ignores SIGTERM",
  { skip },
  async (t) => {
    const place = await makePlace(t, "hold.mjs", "ignore-term");
    const program = start(t, place);
    await call({ program, place }, "task_post", [{}]);
    const hold = await place.held.next();
    await pidOf(t, hold);

    program.kill("SIGKILL");

    await hold.ended;
  },
);

test(
  "kill -9 of the command host ends its commands, and their tasks run again",
  { skip },
  async (t) => {
    const place = await makePlace(t, "fork.mjs", "ignore-term", "detached", "stay");
    const program = start(t, place);
    const { id } = await call({ program, place }, "task_post", [{}]);
    const fork = await place.held.next();
    const hostPid = parentOf(parentOf(await pidOf(t, fork)));
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.kill(hostPid, signal);
    await call({ program, place }, "task_post", [{}]);
    const other = await place.held.next();
    assert.equal(parentOf(parentOf(await pidOf(t, other))), hostPid);

    process.kill(hostPid, "SIGKILL");

    await Promise.all([fork.ended, other.ended]);
    await program.says("the process that runs commands ended unexpectedly");
    for (const again of [await place.held.next(), await place.held.next()]) await pidOf(t, again);
    const task = await call({ program, place }, `task_get/${id}?collect=false`);
    assert.deepEqual([task.state, task.runs], ["running", 2]);
  },
);

test("a start after kill -9 ends orphaned commands before it runs a task", { skip }, async (t) => {
  // A command with a fork that ignores SIGTERM, in a session of its own.
  const place = await makePlace(t, "fork.mjs", "ignore-term", "detached", "stay");
  const { held } = place;
  const first = start(t, place);
  const { id } = await call({ program: first, place }, "task_post", [{ input: 1 }]);
  const fork = await held.next();
  const pid = await pidOf(t, fork);
  const commandPid = parentOf(pid);
  const hostPid = parentOf(commandPid);
  assert.equal(parentOf(hostPid), first.pid);
  // The worst case: the command host is killed before it can end them.
  process.kill(hostPid, "SIGSTOP");
  first.kill("SIGKILL");
  process.kill(hostPid, "SIGKILL");
  await first.exit;
  assert.ok(isThere(pid) && isThere(commandPid));

  const second = start(t, place);
  const again = await held.next();

  assert.deepEqual([pid, commandPid].filter(isThere), []);
  await fork.ended;
  await second.says("ended processes of commands that an earlier daemon left running");
  assert.match(second.stderr, /"processes":2,/);
  await pidOf(t, again);
  const task = await call({ program: second, place }, `task_get/${id}?collect=false`);
  assert.deepEqual([task.state, task.runs], ["running", 2]);
  await call({ program: second, place }, `task_cancel/${id}`, {});
});

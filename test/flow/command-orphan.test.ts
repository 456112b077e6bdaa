import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { fileOwner } from "../../src/ops/file-database.ts";
import { RUN_OF, readProcess } from "../../src/run/processes.ts";
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

/** The task that a request of the account is answered with; one with a body is a POST. */
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

/** The process behind a connection, which ends with the test. */
async function pidOf(t: TestContext, hold: HeldProcess): Promise<number> {
  const pid = Number(await hold.line());
  t.after(() => {
    if (isThere(pid)) process.kill(pid, "SIGKILL");
  });
  return pid;
}

function ownVariables(pid: number): readonly string[] {
  const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  return variables.filter((variable) => variable.startsWith("POSTBACKD_")).toSorted();
}

function parentOf(pid: number): number {
  return readProcess(pid)?.parentPid ?? assert.fail();
}

test(
  "kill -9 of the daemon ends its commands at once, also one that ignores SIGTERM",
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
  "what runs the commands may be killed: they end, and their tasks are run again, as after a crash",
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

test(
  "after kill -9 the next start ends what commands left running before it runs anything",
  { skip },
  async (t) => {
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
    // The worst case: what runs the commands is killed before it can end them.
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
  },
);

test(
  "a start ends no command of a daemon that lives, and nothing of another owner",
  { skip },
  async (t) => {
    const living = await makePlace(t, "hold.mjs");
    const daemon = start(t, living);
    const { id } = await call({ program: daemon, place: living }, "task_post", [{}]);
    const pid = await pidOf(t, await living.held.next());
    const env = { ...process.env, [RUN_OF]: `test-${randomUUID()}/1.1` };
    const stranger = spawn("sleep", ["1000"], { env, stdio: "ignore" });
    t.after(() => stranger.kill("SIGKILL"));
    await once(stranger, "spawn");

    const killed = await makePlace(t, "hold.mjs");
    const first = start(t, killed);
    await call({ program: first, place: killed }, "task_post", [{}]);
    const orphan = await killed.held.next();
    first.kill("SIGKILL");
    await first.exit;
    start(t, killed);
    await pidOf(t, await killed.held.next());

    await orphan.ended;
    assert.ok(isThere(pid));
    assert.ok(isThere(stranger.pid ?? -1));
    assert.equal(
      (await call({ program: daemon, place: living }, `task_get/${id}?collect=false`)).state,
      "running",
    );
  },
);

test(
  "a daemon that a command started serves, and hands its own mark to its commands",
  { skip },
  async (t) => {
    const place = await makePlace(t, "hold.mjs");
    const outer = `${fileOwner(place.file)}/1.1`;
    const env = { [RUN_OF]: outer, POSTBACKD_TASK_ID: "outer", POSTBACKD_PROGRESS_FD: "3" };
    const daemon = start(t, place, env);
    const { id } = await call({ program: daemon, place }, "task_post", [{}]);
    const pid = await pidOf(t, await place.held.next());

    const hostPid = parentOf(pid);
    assert.equal(parentOf(hostPid), daemon.pid);
    const owner = fileOwner(place.file);
    const markOf = (starter: number): string =>
      `${RUN_OF}=${owner}/${starter}.${readProcess(starter)?.startTime}`;
    assert.deepEqual(ownVariables(pid), [
      "POSTBACKD_PROGRESS_FD=3",
      markOf(hostPid),
      `POSTBACKD_TASK_ID=${id}`,
    ]);
    assert.ok(ownVariables(hostPid).includes(markOf(daemon.pid)));
  },
);

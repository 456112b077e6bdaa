import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { readProcess } from "../../src/run/processes.ts";
import { isThere } from "../helpers/process.ts";
import { startProgram } from "../helpers/program.ts";
import { createTestWorker } from "../http/worker-requests.ts";
import { type HeldProcess, node, openHeldProcesses } from "../run/command-run.ts";
import { holdType, openPlace } from "./place.ts";

const skip = existsSync("/proc/self/environ") ? false : "this system has no /proc";
// A fork that ignores SIGTERM, in a session of its own.
const FORK = ["fork.mjs", "ignore-term", "detached", "stay"] as const;

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

/** A daemon with a type whose command holds a connection; `toml` has more types. */
async function startHolding(
  t: TestContext,
  { hold, toml = "" }: { readonly hold?: readonly [string, ...string[]]; readonly toml?: string },
) {
  const held = await openHeldProcesses(t);
  const place = await openPlace(t, holdType(held, hold) + toml);
  return { held, place, ...(await place.start()) };
}

test("kill -9 of the daemon ends a command that ignores SIGTERM", { skip }, async (t) => {
  const { held, client, kill } = await startHolding(t, { hold: ["hold.mjs", "ignore-term"] });
  await client.post({});
  const hold = await held.next();
  await pidOf(t, hold);

  await kill();

  await hold.ended;
});

test(
  "kill -9 of the command host ends its commands, and their tasks run again",
  { skip },
  async (t) => {
    const { held, client, program } = await startHolding(t, { hold: FORK });
    const id = await client.post({});
    const fork = await held.next();
    const hostPid = parentOf(parentOf(await pidOf(t, fork)));
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.kill(hostPid, signal);
    await client.post({});
    const other = await held.next();
    assert.equal(parentOf(parentOf(await pidOf(t, other))), hostPid);

    process.kill(hostPid, "SIGKILL");

    await Promise.all([fork.ended, other.ended]);
    await program.says("the process that runs commands ended unexpectedly");
    for (const again of [await held.next(), await held.next()]) await pidOf(t, again);
    const { state, runs } = await client.get(id);
    assert.deepEqual([state, runs], ["running", 2]);
  },
);

test("a start after kill -9 ends orphaned commands before it runs a task", { skip }, async (t) => {
  const { held, place, client, program, kill } = await startHolding(t, { hold: FORK });
  const id = await client.post({ input: 1 });
  const fork = await held.next();
  const pid = await pidOf(t, fork);
  const commandPid = parentOf(pid);
  const hostPid = parentOf(commandPid);
  assert.equal(parentOf(hostPid), program.pid);
  // The worst case: the command host is killed before it can end them.
  process.kill(hostPid, "SIGSTOP");
  program.kill("SIGKILL");
  process.kill(hostPid, "SIGKILL");
  await kill();
  assert.ok(isThere(pid) && isThere(commandPid));

  const second = await place.start();
  const again = await held.next();

  assert.deepEqual([pid, commandPid].filter(isThere), []);
  await fork.ended;
  await second.program.says("ended processes of commands that an earlier daemon left running");
  assert.match(second.program.stderr, /"processes":2,/);
  await pidOf(t, again);
  const { state, runs } = await second.client.get(id);
  assert.deepEqual([state, runs], ["running", 2]);
  await second.client.cancel(id);
});

test("a command that a supervisor ends together with the daemon runs again after the restart", async (t) => {
  const { held, place, client, program } = await startHolding(t, {});
  const id = await client.post({});
  const pid = Number(await (await held.next()).line());

  // As systemd does with KillMode=control-group: first the main process, then the others.
  program.kill("SIGTERM");
  process.kill(pid, "SIGTERM");
  assert.deepEqual(await program.exit, { code: 0, signal: null });
  const again = await place.start();
  const second = await held.next();

  assert.notEqual(Number(await second.line()), pid);
  assert.equal((await again.client.get(id)).state, "running");
});

test("a worker that a supervisor ends together with its command releases the task", async (t) => {
  const toml = '[types.x]\nrunner = "worker"\nlease = "30s"\n';
  const { held, place, client, url } = await startHolding(t, { toml });
  const command = node("hold.mjs", held.socketPath);
  const env = { POSTBACKD_TOKEN: await createTestWorker(place.file, ["x"]) };
  const worker = startProgram(t, ["worker", "--url", url, "--type", "x", "--", ...command], {
    env,
  });
  const id = await client.post({ type: "x" });
  const pid = Number(await (await held.next()).line());

  worker.kill("SIGTERM");
  process.kill(pid, "SIGTERM");
  await worker.exit;

  assert.equal((await client.get(id)).state, "queued");
});

/** The number of Node's worker threads in a process. */
function workerThreads(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const names = threads.map((id) => readFileSync(`/proc/${pid}/task/${id}/comm`, "utf8"));
  return names.filter((name) => name === "WorkerThread\n").length;
}

test("a daemon starts its reader thread with the first list", { skip }, async (t) => {
  const { program, client } = await (await openPlace(t)).start();
  assert.equal(workerThreads(program.pid), 1);

  const list = await client.call("/v1/tasks");

  assert.equal(list.status, 200);
  assert.equal(workerThreads(program.pid), 2);
});

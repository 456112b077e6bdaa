import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { readProcess } from "../../src/run/processes.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { isThere } from "../helpers/process.ts";
import { node } from "../run/command-run.ts";
import { openHeldProcesses, type HeldProcess } from "../run/held-process.ts";
import { startCluster } from "./start.ts";

const skip = existsSync("/proc/self/environ") ? reasonToSkipPostgres() : "this system has no /proc";

test(
  "a start ends what commands of that daemon left running when it was killed, and nothing of another's",
  { skip, timeout: 240_000 },
  async (t) => {
    const held = await openHeldProcesses(t);
    // Each with a fork that ignores SIGTERM, in a session of its own.
    const words = node("fork.mjs", held.socketPath, "ignore-term", "detached", "stay");
    const more = `\n[types.hold]\ncommand = ${JSON.stringify(words)}\nconcurrency = 1\n`;
    const { cluster, client } = await startCluster(t, { nodes: 2, more });
    // One at each of them.
    for (let task = 0; task < 2; task++) await client.post({ type: "hold" });
    const runs = [await runOf(t, await held.next()), await runOf(t, await held.next())];
    const victim = cluster.node(0);
    const { pid } = victim.daemon;
    const own = runs.find((run) => run.daemonPid === pid) ?? assert.fail("it runs nothing");
    const other = runs.find((run) => run !== own) ?? assert.fail("only one runs");
    assert.equal(other.daemonPid, cluster.node(1).daemon.pid);
    // The worst case: what runs the commands is killed before it can end them.
    process.kill(own.hostPid, "SIGSTOP");
    await victim.kill();
    process.kill(own.hostPid, "SIGKILL");
    assert.ok(own.pids.every(isThere), "they ended with their daemon");

    await victim.start();

    await own.ended;
    assert.deepEqual(own.pids.filter(isThere), []);
    assert.match(victim.daemon.log, /ended processes of commands that an earlier daemon left/);
    assert.ok(other.pids.every(isThere));
    // Its task is run again.
    await runOf(t, await held.next());
  },
);

/** A command, by its fork that has connected; all of it ends with the test. */
async function runOf(t: TestContext, fork: HeldProcess) {
  const pid = Number(await fork.line());
  const commandPid = parentOf(pid);
  const hostPid = parentOf(commandPid);
  const pids = [pid, commandPid];
  t.after(() => {
    for (const each of pids.filter(isThere)) process.kill(each, "SIGKILL");
  });
  return { pids, hostPid, daemonPid: parentOf(hostPid), ended: fork.ended };
}

function parentOf(pid: number): number {
  return readProcess(pid)?.parentPid ?? assert.fail(`there is no process ${pid}`);
}

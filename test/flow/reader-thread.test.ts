import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";

/** The number of Node's worker threads in a process. */
function workerThreads(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const names = threads.map((id) => readFileSync(`/proc/${pid}/task/${id}/comm`, "utf8"));
  return names.filter((name) => name === "WorkerThread\n").length;
}

test("a daemon starts its reader thread with the first list", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await createTestAccount(`${cwd}/p.db`);
  const program = startProgram(t, ["start", "--port", "0", "--db", "p.db"], { cwd });
  const { url } = await program.ready;
  assert.equal(workerThreads(program.pid), 1);

  const list = await fetch(`${url}/v1/tasks`, { headers: { authorization: `Bearer ${key}` } });

  assert.equal(list.status, 200);
  assert.equal(workerThreads(program.pid), 2);
});

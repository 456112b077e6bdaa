import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";

/** How many threads of its own a process runs JavaScript in, besides the main thread, by Node's name for them. */
function workerThreads(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const names = threads.map((id) => readFileSync(`/proc/${pid}/task/${id}/comm`, "utf8"));
  return names.filter((name) => name === "WorkerThread\n").length;
}

test("a daemon has no thread for lists until somebody asks for one", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await createTestAccount(`${cwd}/p.db`);
  const program = startProgram(t, ["start", "--port", "0", "--db", "p.db"], { cwd });
  const { url } = await program.ready;
  assert.equal(workerThreads(program.pid), 1);

  const list = await fetch(`${url}/v1/tasks`, { headers: { authorization: `Bearer ${key}` } });

  assert.equal(list.status, 200);
  assert.equal(workerThreads(program.pid), 2);
});

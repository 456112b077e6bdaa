import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { hasRunningMember } from "../../src/run/processes.ts";

const skip = existsSync("/proc/self/stat") ? false : "this system has no /proc";

test("a group runs until its last process has ended, with any name", { skip }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "postbackd-process-"));
  t.after(() => rm(folder, { recursive: true }));
  // A name with the separators of the process table.
  const program = join(folder, "a) Z 1 1");
  await symlink("/bin/sh", program);
  const child = spawn(program, ["-c", "read _"], { detached: true });
  const { pid } = child;
  assert.ok(pid !== undefined);
  const exit = once(child, "exit");

  assert.equal(await hasRunningMember(pid), true);
  child.stdin.end();
  await exit;
  assert.equal(await hasRunningMember(pid), false);
});

test("a zombie does not run", { skip }, async (t) => {
  // The shell forks the leader of another group and becomes a program that reaps no process.
  const script = "exec 3<&0; setsid sh -c 'echo $$; read _' <&3 & exec sleep 1000";
  const parent = spawn("sh", ["-c", script], { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => parent.kill("SIGKILL"));
  const [line] = await once(parent.stdout, "data");
  const groupId = Number(String(line));

  assert.equal(await hasRunningMember(groupId), true);
  parent.stdin.end("\n");
  while (await hasRunningMember(groupId)) await new Promise((resolve) => setImmediate(resolve));

  assert.equal(process.kill(-groupId, 0), true);
});

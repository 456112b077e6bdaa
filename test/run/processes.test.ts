import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";

import { RUN_OF, endOrphans, hasRunningMember, runMark } from "../../src/run/processes.ts";
import { isThere } from "../helpers/process.ts";
import { node, openHeldProcesses, sh } from "./command-run.ts";

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

/** A number that no process of this test has: the first process of the machine started before it. */
const DEAD = "1.1";

/** Starts a program with a mark in its environment, in a group of its own; ended with the test. */
function startMarked(t: TestContext, mark: string, command = sh("exec sleep 1000")): ChildProcess {
  const [program, ...args] = command;
  const child = spawn(program, args, {
    env: { ...process.env, [RUN_OF]: mark },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

const newOwner = (): string => `test-${randomUUID()}`;

test(
  "endOrphans ends processes with the owner's mark whose starter has ended",
  { skip },
  async (t) => {
    const owner = newOwner();
    const children = [startMarked(t, `${owner}/${DEAD}`), startMarked(t, `${owner}/${DEAD}`)];
    const ends = children.map((child) => once(child, "exit"));
    await Promise.all(children.map((child) => once(child, "spawn")));

    assert.deepEqual(await endOrphans({ owner }), { ended: 2, left: 0 });
    assert.deepEqual(await Promise.all(ends), [
      [null, "SIGKILL"],
      [null, "SIGKILL"],
    ]);
    assert.deepEqual(await endOrphans({ owner }), { ended: 0, left: 0 });
  },
);

test("a starter has ended if another process has its number", { skip }, async (t) => {
  const owner = newOwner();
  const child = startMarked(t, `${owner}/${process.pid}.1`);
  const end = once(child, "exit");
  await once(child, "spawn");

  assert.deepEqual(await endOrphans({ owner }), { ended: 1, left: 0 });
  assert.deepEqual(await end, [null, "SIGKILL"]);
});

test("endOrphans ends no process that is not a proven orphan of the owner", { skip }, async (t) => {
  const owner = newOwner();
  const marks: readonly (readonly [why: string, mark: string])[] = [
    ["its starter lives", runMark(owner) ?? assert.fail()],
    ["another owner's", `${newOwner()}/${DEAD}`],
    ["an owner that begins alike", `${owner}-2/${DEAD}`],
    ["an owner with this one's name in its path", `${owner}/x/${DEAD}`],
    ["no start time", `${owner}/1`],
    ["no number", `${owner}/1.1x`],
    ["nothing", owner],
  ];
  const children = marks.map(([, mark]) => startMarked(t, mark));
  await Promise.all(children.map((child) => once(child, "spawn")));

  assert.deepEqual(await endOrphans({ owner }), { ended: 0, left: 0 });
  assert.deepEqual(
    marks.filter((_, i) => !isThere(children[i]?.pid ?? -1)).map(([why]) => why),
    [],
  );
});

test(
  "a mark in an argument or in the value of another variable does not count",
  { skip },
  async (t) => {
    const owner = newOwner();
    const env = {
      ...process.env,
      OTHER: `x ${RUN_OF}=${owner}/${DEAD}`,
      [`X${RUN_OF}`]: `${owner}/${DEAD}`,
    };
    const args = ["-c", "exec sleep 1000", `${RUN_OF}=${owner}/${DEAD}`];
    const child = spawn("sh", args, { env, stdio: "ignore" });
    t.after(() => child.kill("SIGKILL"));
    await once(child, "spawn");

    assert.deepEqual(await endOrphans({ owner }), { ended: 0, left: 0 });
  },
);

test("endOrphans finds forks in sessions of their own", { skip }, async (t) => {
  const owner = newOwner();
  const held = await openHeldProcesses(t);
  const command = node("fork.mjs", held.socketPath, "ignore-term", "detached", "exit");
  const parent = startMarked(t, `${owner}/${DEAD}`, command);
  const fork = await held.next();
  if (parent.exitCode === null) await once(parent, "exit");

  assert.deepEqual(await endOrphans({ owner }), { ended: 1, left: 0 });
  await fork.ended;
});

test(
  "endOrphans ends a process that forks continuously, and all its forks",
  { skip },
  async (t) => {
    const owner = newOwner();
    const script = "echo started; while :; do sleep 1000 & sleep 0.001; done";
    const child = startMarked(t, `${owner}/${DEAD}`, sh(script));
    await once(child.stdout ?? assert.fail(), "data");

    const { ended, left } = await endOrphans({ owner });

    assert.ok(ended >= 1);
    assert.equal(left, 0);
    assert.deepEqual(await endOrphans({ owner }), { ended: 0, left: 0 });
  },
);

test(
  "a process that a command started ends neither itself nor its ancestors",
  { skip },
  async (t) => {
    const owner = newOwner();
    const module = import.meta.resolve("../../src/run/processes.ts");
    const script = `import { endOrphans } from ${JSON.stringify(module)};
    console.log(JSON.stringify(await endOrphans({ owner: ${JSON.stringify(owner)} })));`;
    // The shell waits for it, so it is its parent.
    const shell = sh('"$@"; exit $?', process.execPath, "--input-type=module", "-e", script);
    const child = startMarked(t, `${owner}/${DEAD}`, shell);
    const [line] = await once(child.stdout ?? assert.fail(), "data");

    assert.deepEqual(JSON.parse(String(line)), { ended: 0, left: 0 });
    assert.deepEqual(await once(child, "exit"), [0, null]);
  },
);

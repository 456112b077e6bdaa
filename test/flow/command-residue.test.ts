import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { childrenOf, descriptorCount } from "../../scripts/kit/processes.ts";
import { startTestDaemon, tempFolder } from "../helpers/daemon.ts";
import { node } from "../run/command-run.ts";
import { openHeldProcesses } from "../run/held-process.ts";

const skip = existsSync("/proc/self/fd") ? false : "this system has no /proc";

test(
  "tasks of every kind and end leave no process and no descriptor behind",
  { skip },
  async (t) => {
    const held = await openHeldProcesses(t);
    const folder = tempFolder(t);
    const notExecutable = join(folder, "tool");
    writeFileSync(notExecutable, "", { mode: 0o644 });
    const types: readonly (readonly [name: string, tasks: number, command: readonly string[]])[] = [
      ["well", 50, ["true"]],
      ["bad", 50, ["sh", "-c", "echo x >&3; exit 3"]],
      ["late", 8, ["sleep", "1000"]],
      ["long", 8, ["yes"]],
      ["fork", 24, ["sh", "-c", "sleep 1000 & echo 1"]],
      ["missing", 30, ["no-such-program"]],
      ["refused", 30, [notExecutable]],
      ["held", 4, node("hold.mjs", held.socketPath)],
    ];
    const toml = types.map(([name, , command]) => {
      const timeout = name === "late" ? "300ms" : "1h";
      return `[types.${name}]\ncommand = ${JSON.stringify(command)}\ntimeout = "${timeout}"\nconcurrency = 8\n`;
    });
    const { post, get, call, daemon } = await startTestDaemon(t, { folder, toml: toml.join("") });
    const runAll = async (): Promise<Readonly<Record<string, readonly string[]>>> => {
      const ids: Record<string, readonly string[]> = {};
      for (const [type, count] of types) {
        const posted = await post(Array.from({ length: count }, () => ({ type })));
        ids[type] = posted.tasks.map(({ id }) => id);
      }
      for (const id of ids["held"] ?? []) {
        await held.next();
        await (await call(`/v1/tasks/task_cancel/${id}`, { method: "POST" })).text();
      }
      await daemon.idle();
      return ids;
    };
    await runAll();
    const children = childrenOf(process.pid).map(({ pid }) => pid);
    const descriptors = descriptorCount(process.pid);

    const ids = await runAll();

    const after = childrenOf(process.pid);
    assert.deepEqual(
      after.map(({ pid }) => pid),
      children,
    );
    assert.ok(after.every(({ state }) => state !== "Z"));
    const more = descriptorCount(process.pid) - descriptors;
    // This process is the client too, whose kept connections come and go. One descriptor of each task would be 200
    // more.
    assert.ok(more < 20, `${descriptors} + ${more}`);
    const codes = Object.entries(ids).map(async ([type, [id = ""]]) => [
      type,
      (await get(id)).status_code,
    ]);
    assert.deepEqual(Object.fromEntries(await Promise.all(codes)), {
      ...{ well: 20000, bad: 50010, late: 50401, long: 50010, fork: 20000 },
      ...{ missing: 50010, refused: 50010, held: 40901 },
    });
  },
);

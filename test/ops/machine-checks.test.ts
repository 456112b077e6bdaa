import assert from "node:assert/strict";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { checkClock, checkLimits } from "../../src/ops/doctor.ts";
import { loaded } from "../helpers/config.ts";
import { tempFolder } from "../helpers/daemon.ts";

const CONFIG = loaded({});
const PID = 7;
const MIB = 1024 ** 2;

interface Machine {
  readonly openFiles?: string;
  readonly fileSize?: string;
  /** The line of its control group. */
  readonly group?: string;
  readonly memory?: string;
  readonly processes?: string;
}

/** The checks that warn on a machine with one process. */
function warnings(t: TestContext, machine: Machine): readonly string[] {
  const root = tempFolder(t);
  const { openFiles = "524288", fileSize = "unlimited", group = "0::/system.slice/one" } = machine;
  const process = join(root, "proc", String(PID));
  const groups = join(root, "sys", "fs", "cgroup", "system.slice", "one");
  for (const folder of [process, groups]) mkdirSync(folder, { recursive: true });
  const limits = [
    "Limit                     Soft Limit           Hard Limit           Units     ",
    `Max file size             unlimited            ${fileSize}            bytes     `,
    `Max open files            1024                 ${openFiles}               files     `,
  ];
  writeFileSync(join(process, "limits"), `${limits.join("\n")}\n`);
  writeFileSync(join(process, "cgroup"), `${group}\n`);
  writeFileSync(join(groups, "memory.max"), `${machine.memory ?? "max"}\n`);
  writeFileSync(join(groups, "pids.max"), `${machine.processes ?? "max"}\n`);
  const found = checkLimits(CONFIG, { pid: PID, isDaemon: true, root });
  const unsound = found.filter(({ verdict }) => verdict !== "ok");
  for (const { remedy } of unsound) assert.ok(remedy);
  return unsound.map(({ check }) => check);
}

test("a process without limits is sound, and so is one with just enough", (t) => {
  assert.deepEqual(warnings(t, {}), []);
  assert.deepEqual(warnings(t, { openFiles: "unlimited" }), []);
  assert.deepEqual(warnings(t, { memory: String(256 * MIB), processes: "64" }), []);
});

test("too little memory or too few processes in the control group are warnings", (t) => {
  assert.deepEqual(warnings(t, { memory: String(256 * MIB - 1) }), ["control group"]);
  assert.deepEqual(warnings(t, { processes: "63" }), ["control group"]);
  assert.deepEqual(warnings(t, { memory: "0", processes: "0" }), ["control group"]);
});

test("control groups of version 1 and unreadable ones are not judged", (t) => {
  const few = { memory: "1", processes: "1" };
  assert.deepEqual(warnings(t, { ...few, group: "4:memory:/system.slice/one" }), []);
  assert.deepEqual(warnings(t, { ...few, group: "0::/elsewhere" }), []);
  assert.deepEqual(warnings(t, { ...few, group: "" }), []);
});

test("hard limits on open files and on the size of a file are warnings", (t) => {
  assert.deepEqual(warnings(t, { openFiles: "1024" }), ["open files"]);
  assert.deepEqual(warnings(t, { fileSize: "1073741824" }), ["file size"]);
});

test("limits that cannot be read are skipped", () => {
  const found = checkLimits(CONFIG, { pid: PID, isDaemon: true, root: "/nonexistent" });
  assert.deepEqual(
    found.map(({ check, verdict }) => `${check} ${verdict}`),
    ["limits skipped"],
  );
});

test("a clock before the build of the program is wrong", () => {
  const made = Math.ceil(statSync(process.execPath).mtimeMs);
  assert.equal(checkClock(made).verdict, "ok");
  const wrong = checkClock(made - 1000);
  assert.equal(wrong.verdict, "failed");
  assert.match(wrong.remedy ?? "", /NTP/);
});

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { BINARY, emptyPlace, runBinary, runTask, startService } from "./binary.ts";

const manifest: unknown = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
);
const CREATE = ["admin", "account", "create", "one", "--db", "data.db"];

function addonsIn(folder: string): readonly string[] {
  return readdirSync(folder).filter((name) => name.endsWith(".node"));
}

/** The inodes of the addons that a process has loaded. */
function loadedAddons(pid: number): ReadonlySet<string | undefined> {
  const maps = readFileSync(`/proc/${pid}/maps`, "utf8").split("\n");
  return new Set(maps.filter((line) => line.includes(".node")).map((line) => line.split(/ +/)[4]));
}

test("the executable has the version of package.json and no path of its build folder", async (t) => {
  const { code, stdout, stderr } = await runBinary(t, ["--version"], emptyPlace(t));

  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.equal(stdout.trim(), Reflect.get(Object(manifest), "version"));
  // With such a path the bytes would differ from folder to folder.
  assert.ok(!readFileSync(BINARY).includes(join(dirname(BINARY), ".build")));
});

test("all threads of the executable work, and share one copy of SQLite", async (t) => {
  const place = emptyPlace(t);
  const service = await startService(t, place);
  const { program, url, key } = service;
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  assert.equal((await runTask(service, { input: 1 })).state, "completed");
  // A list starts the reader thread, and two copies in one process would drop each other's locks on the file.
  for (const name of addonsIn(place.cwd)) rmSync(join(place.cwd, name));

  const listed = await fetch(`${url}/v1/tasks`, { headers });
  const body = `{"input":[${"1.0,".repeat(20_000)}1e9]}`;
  const parsed = await fetch(`${url}/v1/tasks/task_post`, { method: "POST", headers, body });

  assert.deepEqual([listed.status, parsed.status], [200, 200]);
  assert.match(await parsed.text(), /1\.0,1\.0,1e9\]/);
  assert.equal(loadedAddons(program.pid).size, 1);
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
  assert.deepEqual(readdirSync(place.home), []);
});

test("the executable serves with a home that cannot be written to", async (t) => {
  const { cwd, home } = emptyPlace(t);
  chmodSync(home, 0o500);
  // Root may write to any folder, but cannot make one below a file.
  const isRoot = process.geteuid?.() === 0;

  const service = await startService(t, { cwd, home: isRoot ? "/dev/null/home" : home });

  assert.equal((await runTask(service, { input: 1 })).state, "completed");
});

test("a command called node is the one in PATH and not the executable", async (t) => {
  const place = emptyPlace(t);
  writeFileSync(join(place.cwd, "node"), "#!/bin/sh\ncat >/dev/null\necho '\"from PATH\"'\n");
  chmodSync(join(place.cwd, "node"), 0o755);
  writeFileSync(
    join(place.cwd, "postbackd.toml"),
    '[types.one]\ncommand = ["node", "-c", "node"]\n',
  );
  const env = { PATH: `${place.cwd}:${process.env["PATH"] ?? ""}` };

  const service = await startService(t, { ...place, env });
  const task = await runTask(service, { type: "one", input: null });

  assert.deepEqual([task.state, task.result], ["completed", "from PATH"]);
});

test("POSTBACKD_ADDON_FOLDER names the folder that SQLite's addon is unpacked into", async (t) => {
  const place = emptyPlace(t);
  const other = temporaryFolder(t);
  const env = { POSTBACKD_ADDON_FOLDER: other };
  assert.equal((await runBinary(t, CREATE, { ...place, env })).code, 0);

  assert.deepEqual([addonsIn(other).length, addonsIn(place.cwd).length], [1, 0]);
});

test("the executable unpacks SQLite's addon once, and replaces a changed one or a FIFO", async (t) => {
  const place = emptyPlace(t);
  const list = async () => {
    const words = ["admin", "account", "list", "--db", "data.db"];
    assert.equal((await runBinary(t, words, place)).code, 0);
  };
  assert.equal((await runBinary(t, CREATE, place)).code, 0);
  const [name = "", ...others] = addonsIn(place.cwd);
  const addon = join(place.cwd, name);
  const [original, { ino }] = [readFileSync(addon), statSync(addon)];

  await list();
  assert.deepEqual([others, statSync(addon).ino], [[], ino]);
  writeFileSync(addon, "not an addon");
  await list();
  assert.deepEqual(readFileSync(addon), original);
  rmSync(addon);
  assert.equal(spawnSync("mkfifo", [addon]).status, 0);
  await list();
  assert.ok(statSync(addon).isFile());
});

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import {
  BINARY,
  emptyPlace,
  post,
  runBinary,
  runTask,
  startBinary,
  startService,
} from "./binary.ts";

const manifest: unknown = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
);

test("the executable says its version", async (t) => {
  const { code, stdout, stderr } = await runBinary(t, ["--version"], emptyPlace(t));

  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.equal(stdout.trim(), Reflect.get(Object(manifest), "version"));
});

// With such a path its bytes would differ from folder to folder.
test("the executable contains no path of the folder that it was built in", () => {
  assert.ok(!readFileSync(BINARY).includes(join(dirname(BINARY), ".build")));
});

test("the executable serves a task from start to stop in an empty folder", async (t) => {
  const place = emptyPlace(t);
  const service = await startService(t, place);

  const task = await runTask(service, { input: { digits: [1, 2], text: "ü" } });
  const exit = await service.program.stop();

  assert.equal(task.state, "completed");
  assert.deepEqual(task.result, { digits: [1, 2], text: "ü" });
  assert.deepEqual(exit, { code: 0, signal: null });
  assert.deepEqual(readdirSync(place.home), []);
});

test("the ready line is one JSON document and all that is on stdout", async (t) => {
  const { program } = await startService(t, emptyPlace(t));
  await program.stop();

  const ready = await program.ready;
  assert.deepEqual(JSON.parse(program.stdout), ready);
  assert.equal(ready.version, Reflect.get(Object(manifest), "version"));
  assert.equal(ready.pid, program.pid);
  assert.equal(ready.url, `http://127.0.0.1:${ready.port}`);
  assert.match(ready.db, /data\.db$/);
});

test("the executable serves with a home that cannot be written to", async (t) => {
  const { cwd, home } = emptyPlace(t);
  chmodSync(home, 0o500);
  // Root may write to any folder, but nobody can make one below a file.
  const isRoot = process.geteuid?.() === 0;
  const place = { cwd, home: isRoot ? "/dev/null/home" : home };

  const service = await startService(t, place);

  assert.equal((await runTask(service, { input: 1 })).state, "completed");
  assert.deepEqual(await service.program.stop(), { code: 0, signal: null });
});

test("what was acknowledged is there after a restart of the executable", async (t) => {
  const place = emptyPlace(t);
  const service = await startService(t, place);
  const { id } = await runTask(service, { input: "kept" });
  await service.program.stop();

  const again = startBinary(t, ["start", "--db", "data.db", "--port", "0"], place);
  const { url } = await again.ready;
  const response = await fetch(`${url}/v1/tasks/task_get/${id}`, {
    headers: { authorization: `Bearer ${service.key}` },
  });

  assert.match(await response.text(), /"result":"kept"/);
});

test("the executable refuses what the sources refuse", async (t) => {
  const service = await startService(t, emptyPlace(t));

  const invalid = await post(service, '{"input":');
  const unknownKey = await post({ ...service, key: `pbd_live_${"0".repeat(40)}` }, "[]");

  assert.deepEqual([invalid.status, invalid.envelope.status_code], [400, 40503]);
  assert.deepEqual([unknownKey.status, unknownKey.envelope.status_code], [401, 40100]);
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
  const create = ["admin", "account", "create", "one", "--json", "--db", "data.db"];
  const { code, stderr } = await runBinary(t, create, { ...place, env });
  assert.deepEqual([code, stderr], [0, ""]);

  const addonsIn = (folder: string) => readdirSync(folder).filter((name) => name.endsWith(".node"));
  assert.deepEqual([addonsIn(other).length, addonsIn(place.cwd).length], [1, 0]);
});

test("the executable unpacks SQLite's addon beside the database and leaves it as it is", async (t) => {
  const place = emptyPlace(t);
  const create = ["admin", "account", "create", "one", "--json", "--db", "data.db"];
  assert.equal((await runBinary(t, create, place)).code, 0);
  const addons = readdirSync(place.cwd).filter((name) => name.endsWith(".node"));

  const list = ["admin", "account", "list", "--json", "--db", "data.db"];
  assert.equal((await runBinary(t, list, place)).code, 0);

  assert.equal(addons.length, 1);
  assert.deepEqual(
    readdirSync(place.cwd).filter((name) => name.endsWith(".node")),
    addons,
  );
});

// Two copies in one process would drop each other's locks on the file.
test("all threads of the executable share one copy of SQLite", async (t) => {
  const { program } = await startService(t, emptyPlace(t));

  const maps = readFileSync(`/proc/${program.pid}/maps`, "utf8").split("\n");

  const addons = maps.filter((line) => line.endsWith(".node")).map((line) => line.split(/ +/)[4]);
  assert.equal(new Set(addons).size, 1);
});

// The thread that lists tasks starts with the first list.
test("a thread that starts after the unpacked addon was removed shares that copy too", async (t) => {
  const place = emptyPlace(t);
  const { program, url, key } = await startService(t, place);
  for (const name of readdirSync(place.cwd)) {
    if (name.endsWith(".node")) rmSync(join(place.cwd, name));
  }

  const response = await fetch(`${url}/v1/tasks`, { headers: { authorization: `Bearer ${key}` } });

  assert.equal(response.status, 200);
  const maps = readFileSync(`/proc/${program.pid}/maps`, "utf8").split("\n");
  const addons = maps.filter((line) => line.includes(".node"));
  assert.equal(new Set(addons.map((line) => line.split(/ +/)[4])).size, 1);
});

test("a body that takes long to parse is parsed by a thread of the executable", async (t) => {
  const { url, key } = await startService(t, emptyPlace(t));
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = `{"input":[${"1.0,".repeat(20_000)}1e9]}`;

  const response = await fetch(`${url}/v1/tasks/task_post`, { method: "POST", headers, body });

  assert.equal(response.status, 200);
  assert.match(await response.text(), /1\.0,1\.0,1e9\]/);
});

test("the executable replaces an unpacked addon that somebody has changed", async (t) => {
  const place = emptyPlace(t);
  const list = ["admin", "account", "list", "--json", "--db", "data.db"];
  const create = ["admin", "account", "create", "alice", "--db", "data.db"];
  assert.equal((await runBinary(t, create, place)).code, 0);
  const addon = readdirSync(place.cwd).find((name) => name.endsWith(".node"));
  assert.ok(addon !== undefined);
  const original = readFileSync(join(place.cwd, addon));
  writeFileSync(join(place.cwd, addon), "not an addon");

  assert.equal((await runBinary(t, list, place)).code, 0);

  assert.deepEqual(readFileSync(join(place.cwd, addon)), original);
});

test("the executable does not wait for a FIFO with the name of its addon", async (t) => {
  const place = emptyPlace(t);
  const create = ["admin", "account", "create", "alice", "--db", "data.db"];
  assert.equal((await runBinary(t, create, place)).code, 0);
  const addon = readdirSync(place.cwd).find((name) => name.endsWith(".node"));
  assert.ok(addon !== undefined);
  rmSync(join(place.cwd, addon));
  assert.equal(spawnSync("mkfifo", [join(place.cwd, addon)]).status, 0);

  assert.equal((await runBinary(t, ["admin", "link", "--db", "data.db"], place)).code, 0);

  assert.ok(statSync(join(place.cwd, addon)).isFile());
});

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import { version } from "../../scripts/manifest.ts";
import { runTask, type Service } from "../dist/binary.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { exchange } from "../helpers/raw-http.ts";
import { folderWith, testPackage } from "./packages.ts";

const ARCHIVE = testPackage();

/** npm without a registry. */
const NPM_ENV = { npm_config_offline: "true", npm_config_update_notifier: "false" };

/** An empty project with the package, installed by npm without a registry. */
async function installedBy(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "package.json"), "{}");
  const env = { ...NPM_ENV, npm_config_cache: join(cwd, ".cache") };
  const { code, stderr } = await runProgram(t, ["install", ARCHIVE], {
    command: ["npm"],
    cwd,
    env,
  });
  assert.equal(code, 0, stderr);
  return cwd;
}

/** The command as `npx` starts it. */
function commandIn(cwd: string): readonly [string, ...string[]] {
  return [join(cwd, "node_modules", ".bin", "postbackd")];
}

test("npm installs the package without a registry, and npx runs its command", async (t) => {
  const cwd = await installedBy(t);
  const env = { ...NPM_ENV, npm_config_cache: join(cwd, ".cache") };

  const said = await runProgram(t, ["postbackd", "--version"], { command: ["npx"], cwd, env });

  assert.deepEqual([said.code, said.stdout], [0, `${version}\n`], said.stderr);
  const modules = readdirSync(join(cwd, "node_modules")).filter((name) => !name.startsWith("."));
  assert.deepEqual(modules, ["postbackd"]);
});

/** The installed daemon on a new file, with an account. */
async function startInstalled(t: TestContext): Promise<Service & { readonly cwd: string }> {
  const cwd = await installedBy(t);
  const command = commandIn(cwd);
  writeFileSync(
    join(cwd, "postbackd.toml"),
    '[types.echo]\nrunner = "echo"\n[types.cat]\ncommand = ["cat"]\n',
  );
  const program = startProgram(t, ["start", "--port", "0"], { command, cwd });
  const { url } = await program.ready;
  const create = ["admin", "account", "create", "tester", "--json"];
  const { stdout, stderr } = await runProgram(t, create, { command, cwd });
  const key = /pbd_live_[\dA-Za-z]{40}/.exec(stdout)?.[0] ?? assert.fail(stderr);
  return { program, url, key, cwd };
}

test("the installed daemon runs tasks with all its threads and makes a backup", async (t) => {
  const service = await startInstalled(t);
  const { url, key, cwd, program } = service;

  assert.equal((await runTask(service, { type: "echo", input: "hello" })).result, "hello");
  // By the process that runs commands.
  assert.equal((await runTask(service, { type: "cat", input: 1 })).state, "completed");
  // Longer than a body that the main thread parses.
  const long = "x".repeat(70_000);
  assert.equal((await runTask(service, { type: "echo", input: long })).result, long);
  const headers = { authorization: `Bearer ${key}` };
  const list = await fetch(`${url}/v1/tasks`, { headers });
  assert.match(await list.text(), /"tasks_count":3/);
  assert.equal((await exchange(url, { target: "/dashboard/" })).status, 200);
  const backup = ["backup", "create", join(cwd, "copy.db")];
  const made = await runProgram(t, backup, { command: commandIn(cwd), cwd });
  assert.equal(made.code, 0, made.stderr);
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
});

test("the installed command runs a development daemon whose inbox receives a webhook", async (t) => {
  const cwd = await installedBy(t);
  const env = { ...NPM_ENV, npm_config_cache: join(cwd, ".cache") };
  const args = ["dev", "--port", "0", "--clock", "manual"];
  const program = startProgram(t, args, { command: commandIn(cwd), cwd, env });
  const ready: Readonly<Record<string, unknown>> = { ...(await program.ready) };
  const [url, key] = [String(ready["url"]), String(ready["key"])];
  assert.equal(ready["mode"], "dev");

  const service = { program, url, key };
  await runTask(service, { input: 1, postback_url: `${url}/inbox/npm` });
  const inbox = await fetch(`${url}/dev/inbox/npm?count=1&wait=30`);

  assert.match(await inbox.text(), /"verdict":"valid"/);
  assert.deepEqual(await program.stop(), { code: 0, signal: null });
  assert.deepEqual(
    readdirSync(cwd).filter((name) => name.endsWith(".db")),
    [],
  );
});

test("the package has the client of PostgreSQL", async (t) => {
  const cwd = folderWith(t, ARCHIVE);
  const command = [process.execPath, join(cwd, "node_modules/postbackd/dist/command.cjs")] as const;
  const server = "postgres://user:password@127.0.0.1:1/database";
  const file = join(cwd, "postbackd.db");
  await runProgram(t, ["admin", "account", "create", "one", "--db", file], { command, cwd });

  for (const args of [
    ["database", "migrate", "--db", server],
    ["move", "--from", file, "--to", server],
  ]) {
    const { code, stderr } = await runProgram(t, args, { command, cwd });
    assert.equal(code, 1);
    assert.match(stderr, /127\.0\.0\.1:1\b/);
  }
});

test("the command on an older Node names the version that it needs", async (t) => {
  const cwd = folderWith(t, ARCHIVE);
  writeFileSync(
    join(cwd, "old.cjs"),
    'Object.defineProperty(process, "versions", { value: { node: "20.20.2" } });',
  );
  const file = join(cwd, "node_modules", "postbackd", "dist", "command.cjs");

  const command = [process.execPath, "--require", "./old.cjs", file] as const;
  const { code, stdout, stderr } = await runProgram(t, ["--version"], { command, cwd });

  assert.deepEqual([code, stdout], [1, ""]);
  assert.match(stderr, /^postbackd needs Node 24 .*20\.20\.2\n$/);
});

test("the package has no dependencies and no install script, and has every file that it names", (t) => {
  const home = join(folderWith(t, ARCHIVE), "node_modules", "postbackd");

  const manifest: object = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));

  assert.deepEqual(Object.keys(manifest), [
    ...["name", "version", "description", "license", "type", "engines", "bin", "main", "types"],
    ...["typesVersions", "exports", "files"],
  ]);
  const places = JSON.stringify(manifest).match(/(?<=")(?:\.\/)?dist\/[^"]+/g) ?? [];
  assert.ok(places.length > 10);
  for (const place of places) assert.ok(isThere(join(home, place)), place);
  assert.deepEqual(readdirSync(home).toSorted(), [
    ...["LICENSE", "README.md", "THIRD-PARTY-NOTICES", "dist", "package.json"],
  ]);
});

function isThere(place: string): boolean {
  return readdirSync(dirname(place)).some((name) => place.endsWith(`/${name}`));
}

test("npm's package is the same to the byte when it is made again", () => {
  assert.ok(readFileSync(testPackage()).equals(readFileSync(ARCHIVE)));
});

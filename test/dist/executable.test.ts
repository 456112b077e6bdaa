import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";

import { PROGRAMS, type ProgramAssets } from "../../scripts/program-assets.ts";
import { hasBrowser, openPage, signIn } from "../dashboard/browser.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { exchange, headerOf } from "../helpers/raw-http.ts";
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

test("the executable unpacks SQLite's addon once, also elsewhere, and replaces a changed one or a FIFO", async (t) => {
  const place = emptyPlace(t);
  const list = async () => {
    const words = ["admin", "account", "list", "--db", "data.db"];
    assert.equal((await runBinary(t, words, place)).code, 0);
  };
  assert.equal((await runBinary(t, CREATE, place)).code, 0);
  const [name = "", ...others] = addonsIn(place.cwd);
  // Another folder of the addon.
  const folder = temporaryFolder(t);
  const elsewhere = { ...emptyPlace(t), env: { POSTBACKD_ADDON_FOLDER: folder } };
  assert.equal((await runBinary(t, CREATE, elsewhere)).code, 0);
  assert.deepEqual([addonsIn(folder), addonsIn(elsewhere.cwd)], [[name], []]);
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

// V8 compares version, flags and length, and compiles the whole program again if one of them differs.
const probe = ({ source, cache }: ProgramAssets) => `
  const { getRawAsset } = require("node:sea");
  const read = (name) => Buffer.from(getRawAsset(name));
  const source = read("${source}").toString("latin1");
  const options = { cachedData: read("${cache}") };
  const { cachedDataRejected } = new (require("node:vm").Script)(source, options);
  process.stdout.write(String(cachedDataRejected));
  process.exit();`;

/** Compiles a program of the executable in the executable itself. */
async function isRejected(
  t: TestContext,
  { program, flags }: { readonly program: ProgramAssets; readonly flags: string },
): Promise<string> {
  const place = emptyPlace(t);
  const file = join(place.home, "probe.cjs");
  writeFileSync(file, probe(program));
  const env = { NODE_OPTIONS: `${flags} --require=${file}` };
  const { stdout, stderr } = await runBinary(t, ["--version"], { ...place, env });
  assert.equal(stderr, "");
  return stdout;
}

for (const program of PROGRAMS) {
  test(`the executable takes the compiled code of ${program.source} and not with other flags`, async (t) => {
    assert.equal(await isRejected(t, { program, flags: "" }), "false");
    // A flag that V8 compares.
    const flags = "--interpreted-frames-native-stack";
    assert.equal(await isRejected(t, { program, flags }), "true");
  });
}

/** Every package whose code is in the executable; one more needs a reason, and its place here. */
const PACKAGES = [
  // Node's own.
  ...["balanced-match", "brace-expansion"],
  ...["@bomb.sh/tab", "@pinojs/redact", "atomic-sleep", "better-sqlite3", "citty", "consola"],
  ...["croner", "defu"],
  ...["get-port-please", "h3"],
  ...["http-shutdown", "listhen", "on-exit-leak-free", "pathe", "pino", "pino-std-serializers"],
  ...["quick-format-unescaped", "rou3", "safe-stable-stringify", "smol-toml", "sonic-boom", "srvx"],
  ...["std-env"],
  // pg, and what it brings along.
  ...[
    "pg",
    "pg-cloudflare",
    "pg-connection-string",
    "pg-int8",
    "pg-pool",
    "pg-protocol",
    "pg-types",
  ],
  ...["pgpass", "postgres-array", "postgres-bytea", "postgres-date", "postgres-interval", "split2"],
  ...["xtend"],
];

/** Words of what was left out: what starts tunnels, makes certificates, opens browsers, writes to the clipboard. */
const LEFT_OUT = [
  ...["cloudflared", "node_modules/untun", "node_modules/node-forge"],
  ...["node_modules/tinyclip", "node_modules/uqr", "node_modules/crossws", "open_generic_xdg"],
  ...["node_modules/consola/dist/chunks/prompt", "node_modules/thread-stream"],
];

test("the executable has the code of the listed packages alone", () => {
  const text = readFileSync(BINARY, "latin1");
  const found = [...text.matchAll(/\n\s*\/\/ node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//g)];
  const packages = new Set(found.map(([, name = ""]) => name));

  assert.deepEqual([...packages].toSorted(), PACKAGES.toSorted());
});

test("the executable has no code of unused features of its packages", () => {
  const bytes = readFileSync(BINARY);

  assert.deepEqual(
    LEFT_OUT.filter((word) => bytes.includes(word)),
    [],
  );
});

test("the executable has the compressed dashboard, with immutable assets", async (t) => {
  const { url } = await startService(t, emptyPlace(t));
  const page = await exchange(url, { target: "/dashboard/" });
  assert.equal(page.status, 200);
  const assets = [...page.body.toString().matchAll(/(?:src|href)="([^"]+)"/g)].map(
    ([, at = ""]) => at,
  );
  // The style, the icon, the first script and those that it needs.
  const needed = assets.filter((at) => at.includes("/chunk-"));
  assert.equal(assets.length - needed.length, 3);
  // The page does not name the operator's script: one of its own scripts does.
  const scripts = assets.filter((at) => at.endsWith(".js"));
  const bodies = await Promise.all(scripts.map((target) => exchange(url, { target })));
  const [operators = ""] = /screens-\w{8}\.js/.exec(bodies.map(({ body }) => body).join("")) ?? [];
  for (const target of [...assets, `/dashboard/assets/${operators}`]) {
    assert.match(target, /^\/dashboard\/assets\/[a-z]+-[\dA-Za-z]{8,}\.(js|css|svg)$/);
    const headers = ["Accept-Encoding: br"];
    const asset = await exchange(url, { target, headers });
    assert.equal(asset.status, 200, target);
    assert.equal(headerOf(asset, "cache-control"), "public, max-age=31536000, immutable");
    const isText = !target.endsWith(".svg");
    if (isText) assert.equal(headerOf(asset, "content-encoding"), "br", target);
    assert(asset.body.length > 0 && asset.body.length < 64 * 1024, target);
  }
});

test("an account signs in at the dashboard of the executable", async (t) => {
  if (!hasBrowser(t)) return;
  const { url, key } = await startService(t, emptyPlace(t));
  const { page } = await openPage(t, url);
  await signIn(page, { login: "tester", key, secret: "" });
  await page.getByText("Live", { exact: true }).waitFor();
  await page.close();
});

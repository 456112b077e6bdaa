import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  lchownSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";
import { runHere } from "./in-process.ts";

/** Starts a daemon on a file and waits until it serves. */
async function serve(t: TestContext, db: string) {
  const program = startProgram(t, ["start", "--port", "0", "--db", db]);
  await program.ready;
  return program;
}

test("no command opens a file with two names (hard links)", async (t) => {
  const folder = temporaryFolder(t);
  const [file, twin] = [join(folder, "a.db"), join(folder, "b.db")];
  await makeDatabase(file);
  linkSync(file, twin);

  for (const db of [file, twin]) {
    for (const command of ["start --port 0", "admin account create bob"]) {
      const { code, stderr } = await runHere(t, [...command.split(" "), "--db", db]);
      assert.equal(code, 1, command);
      assert.match(stderr, /hard link.*find FOLDER -inum \d+/);
    }
    assert.equal(existsSync(`${db}.lock`), false);
  }
});

test("start refuses a file that a daemon serves under an earlier name", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "a.db");
  const first = await serve(t, file);
  renameSync(file, `${file}.old`);

  const { code, stderr } = await runProgram(t, ["start", "--port", "0", "--db", `${file}.old`]);

  assert.equal(code, 1);
  assert.ok(stderr.includes(`process ${first.pid} `), stderr);
  first.kill("SIGKILL");
  await first.exit;
  await serve(t, `${file}.old`);
});

test("start serves a file that another program reads", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "a.db");
  const first = await serve(t, file);
  const script = `
    import Database from "better-sqlite3";
    const reader = new Database(process.argv[1], { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM tasks").get();
    console.log(JSON.stringify({ event: "ready" }));
    setInterval(() => {}, 1000);`;
  const command = [process.execPath, "--input-type=module", "-e", script] as const;
  const reader = startProgram(t, [file], { command, cwd: process.cwd() });
  await reader.ready;
  assert.equal((await first.stop()).code, 0);

  await serve(t, file);
});

/** The reason why nothing can be mounted here, or null. */
function whyNoMount(): string | null {
  const { status, stderr } = unshared("true");
  return status === 0 ? null : `no mount namespace: ${stderr}`;
}

/** Runs a shell script in a mount namespace. */
function unshared(script: string, cwd?: string) {
  const args = ["--mount", "--map-root-user", "sh", "-ec", script];
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("POSTBACKD_"));
  const env = Object.fromEntries(own);
  return spawnSync("unshare", args, { encoding: "utf8", cwd, env, timeout: 20_000 });
}

const MAIN = new URL("../../src/main.ts", import.meta.url).pathname;
const RUN = `exec "${process.execPath}" "${MAIN}"`;

test("start refuses a file that is a mount, because its -wal would lie outside", (t) => {
  const reason = whyNoMount();
  if (reason !== null) return t.skip(reason);
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "my data"));
  writeFileSync(join(folder, "real.db"), "");
  writeFileSync(join(folder, "my data/a.db"), "");

  const mounted = 'mount --bind real.db "my data/a.db"';
  const { status, stderr } = unshared(
    `${mounted}; ${RUN} start --port 0 --db "my data/a.db"`,
    folder,
  );

  assert.equal(status, 1, stderr);
  assert.match(stderr, /my data\/a\.db is mounted/);
  assert.equal(existsSync(join(folder, "my data/a.db.lock")), false);
});

test("a folder that is mounted twice has one lock", async (t) => {
  const reason = whyNoMount();
  if (reason !== null) return t.skip(reason);
  const folder = temporaryFolder(t);
  for (const name of ["real", "again"]) mkdirSync(join(folder, name));
  symlinkSync("real", join(folder, "link"));
  const first = await serve(t, join(folder, "real/a.db"));

  for (const db of ["again/a.db", "link/a.db"]) {
    const script = `mount --bind real again; ${RUN} start --port 0 --db ${db}`;
    const { status, stderr } = unshared(script, folder);
    assert.equal(status, 1, stderr);
    assert.ok(stderr.includes(`is already served by process ${first.pid}`), stderr);
  }
});

test("root follows no link of another user to a missing file", async (t) => {
  if (process.geteuid?.() !== 0) return t.skip("this is not root");
  const folder = temporaryFolder(t);
  const [source, copy] = [join(folder, "source.db"), join(folder, "copy.db")];
  await makeDatabase(source);
  const made = await runProgram(t, ["backup", "create", copy, "--db", source]);
  assert.equal(made.code, 0, made.stderr);
  const link = join(folder, "theirs.db");
  symlinkSync(join(folder, "target.db"), link);
  lchownSync(link, 61234, 61234);
  const own = join(folder, "own.db");
  symlinkSync(link, own);

  for (const db of [link, own]) {
    for (const command of ["start --port 0", `backup restore ${copy} --deliveries pause`]) {
      const { code, stderr } = await runProgram(t, [...command.split(" "), "--db", db]);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /theirs\.db is a symbolic link of user 61234|running as user 61234/);
    }
  }
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith("target")),
    [],
  );
});

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  lchownSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { nodesAnswer } from "../../src/cli/admin-worker.ts";
import { SCHEMA } from "../../src/store/postgres/machine/schema.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { runProgram, startProgram, temporaryFolder, type Finished } from "../helpers/program.ts";
import { leaveOnlyWal, makeDatabase } from "../helpers/store.ts";
import { runHere } from "./in-process.ts";

async function newFile(t: TestContext): Promise<string> {
  const file = join(temporaryFolder(t), "a.db");
  await makeDatabase(file);
  return file;
}

const COMMANDS = ["start --port 0", "admin account create bob"];

/** The daemon and a command refuse the file, name the reason and the remedy, and leave it as it is. */
async function assertRefused(t: TestContext, file: string, reason: RegExp): Promise<void> {
  const before = readFileSync(file);
  for (const command of COMMANDS) {
    const { code, stderr } = await runHere(t, [...command.split(" "), "--db", file]);
    assert.equal(code, 1, command);
    assert.match(stderr, reason);
    assert.match(stderr, /backup restore/);
  }
  assert.deepEqual(readFileSync(file), before);
}

test("a truncated file is refused", async (t) => {
  const file = await newFile(t);
  truncateSync(file, readFileSync(file).length - 4096);

  await assertRefused(t, file, /a\.db is damaged/);
});

test("a -wal of another file is refused", async (t) => {
  const file = await newFile(t);
  const whole = `${file}.whole`;
  const connection = new Database(file);
  connection.prepare("VACUUM INTO ?").run(whole);
  connection.exec("CREATE TABLE IF NOT EXISTS other (a); DROP TABLE other");
  const wal = readFileSync(`${file}-wal`);
  connection.close();
  writeFileSync(file, readFileSync(whole));
  writeFileSync(`${file}-wal`, wal);

  await assertRefused(t, file, /a\.db-wal does not belong to .*a\.db /);
  assert.deepEqual(readFileSync(`${file}-wal`), wal);
  assert.equal(existsSync(`${file}-shm`), false);
});

test("a missing file next to a -wal with commits is not created", async (t) => {
  const file = await newFile(t);
  const wal = leaveOnlyWal(file);

  for (const command of COMMANDS) {
    const { code, stderr } = await runHere(t, [...command.split(" "), "--db", file]);
    assert.equal(code, 1, command);
    assert.match(stderr, /a\.db is missing.*a\.db-wal.*backup restore/);
  }

  assert.equal(existsSync(file), false);
  assert.deepEqual(readFileSync(`${file}-wal`), wal);
});

test("a FIFO as the -wal or as a backup's document holds no command up", async (t) => {
  const file = await newFile(t);
  const fifo = (path: string): void => assert.equal(spawnSync("mkfifo", [path]).status, 0);
  fifo(`${file}.json`);

  const checked = await runProgram(t, ["backup", "check", file]);
  assert.equal(checked.code, 1);
  assert.match(checked.stdout, /a\.db\.json is not what/);

  fifo(`${file}-wal`);
  const started = await runProgram(t, ["start", "--port", "0", "--db", file]);
  assert.equal(started.code, 1);
  assert.match(started.stderr, /a\.db-wal is not a file/);
});

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
    for (const command of COMMANDS) {
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

const SECRET = "s3cr3t";
// Nothing listens on port 1.
const SERVER = `postgres://app:${SECRET}@127.0.0.1:1/jobs`;

function assertNoSecret({ stdout, stderr }: Finished): void {
  assert.doesNotMatch(stdout + stderr, new RegExp(SECRET));
}

test("a command that cannot reach PostgreSQL names the host and not the password", async (t) => {
  const cwd = temporaryFolder(t);
  const commands = [
    ["admin", "account", "create", "ada"],
    ["admin", "node", "list"],
    ["database", "migrate"],
  ];

  for (const words of commands) {
    const ended = await runHere(t, [...words, "--db", SERVER], { cwd });
    assert.deepEqual([ended.code, ended.stdout], [1, ""], words.join(" "));
    assert.match(ended.stderr, /127\.0\.0\.1:1/);
    assertNoSecret(ended);
  }
});

test("database migrate makes the tables once", { skip: reasonToSkipPostgres() }, async (t) => {
  const url = await newDatabaseUrl(t);
  const options = { env: { POSTBACKD_DB: url } };
  const made = await runHere(t, ["database", "migrate"], options);
  const again = await runHere(t, ["database", "migrate", "--json"], options);

  const { password } = new URL(url);
  const shown = url.replace(`:${password}@`, "@");
  assert.ok(made.stdout.includes(shown));
  assert.deepEqual(JSON.parse(again.stdout), {
    database: shown,
    from: SCHEMA.version,
    to: SCHEMA.version,
  });
});

test("start reports a refused password without it", { skip: reasonToSkipPostgres() }, async (t) => {
  const url = new URL(await newDatabaseUrl(t));
  url.password = SECRET;
  const options = { env: { POSTBACKD_DB: url.href, TMPDIR: temporaryFolder(t) } };
  const ended = await runProgram(t, ["start", "--port", "0"], options);

  assert.equal(ended.code, 1);
  assert.match(ended.stderr, new RegExp(`${url.host} refuses postgres`));
  assertNoSecret(ended);
});

test("node list shows the nodes of a cluster, also one without facts", () => {
  const joinedAt = Date.parse("2030-01-31T09:00:00.000Z");
  const node = { name: "east", version: "1.0.0", joinedAt, lastSeenAt: joinedAt + 2000 };
  const running = [
    { type: "a", runs: 2 },
    { type: "b", runs: 1 },
  ];
  const counts = { all: 0, failed: 0 };
  const { lines, document } = nodesAnswer([
    {
      ...{ ...node, id: "2", endedAt: null, isLost: false, roles: ["sweep", "reap"] },
      facts: { url: "http://10.0.0.1:1", running, sending: 4, runs: counts, receivers: counts },
    },
    { ...node, id: "1", endedAt: joinedAt + 5000, isLost: true, roles: [], facts: null },
  ]);

  const rows = lines.map((line) => line.split(/ {2,}/));
  const titles = ["URL", "ENDED AT", "ROLES", "RUNNING", "SENDING"];
  assert.deepEqual(
    rows.map((row) => titles.map((title) => row[rows[0]?.indexOf(title) ?? -1])),
    [
      titles,
      ["http://10.0.0.1:1", "-", "sweep,reap", "3", "4"],
      ["-", "2030-01-31T09:00:05.000Z (lost)", "-", "-", "-"],
    ],
  );
  const [first] = Object(document)["nodes"];
  assert.deepEqual([Object(first)["roles"], "duties" in Object(first)], [["sweep", "reap"], false]);
  assert.deepEqual(Object.keys(document), ["nodes"]);
});

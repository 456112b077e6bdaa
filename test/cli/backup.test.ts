import assert from "node:assert/strict";
import {
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import { newPost, newTask, openTestStore, webhook } from "../helpers/store.ts";
import { documentOf, runHere } from "./in-process.ts";

interface Place {
  readonly folder: string;
  readonly database: string;
  readonly copy: string;
}

/** A folder with a database of one account. */
async function newPlace(t: TestContext): Promise<Place> {
  const folder = temporaryFolder(t);
  const database = join(folder, "a.db");
  await createAccount(t, database, "ada");
  return { folder, database, copy: join(folder, "copy.db") };
}

function createAccount(t: TestContext, database: string, login: string): Promise<object> {
  return documentOf(t, ["admin", "account", "create", login, "--db", database]);
}

async function makeCopy(t: TestContext, { database, copy }: Place): Promise<void> {
  const { code, stderr } = await runProgram(t, ["backup", "create", copy, "--db", database]);
  assert.equal(code, 0, stderr);
}

async function logins(t: TestContext, database: string): Promise<readonly string[]> {
  const words = ["admin", "account", "list", "--db", database];
  const { accounts } = await documentOf<{ accounts: { login: string }[] }>(t, words);
  return accounts.map(({ login }) => login);
}

/** All files of a folder with their bytes. */
function contents(folder: string): ReadonlyMap<string, Buffer> {
  return new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
}

async function assertRefused(t: TestContext, copy: string, reason: RegExp): Promise<void> {
  const { code, stdout } = await runHere(t, ["backup", "check", copy]);
  assert.equal(code, 1, stdout);
  assert.match(stdout, reason);
}

/** A restore whose standard output is a document. */
async function restored(t: TestContext, { copy, database }: Place) {
  const args = ["--db", database, "--deliveries", "resume", "--json"];
  const { code, stdout, stderr } = await runHere(t, ["backup", "restore", copy, ...args]);
  assert.equal(code, 0, stderr);
  const { set_aside: setAside } = JSON.parse(stdout) as { set_aside: readonly string[] };
  return { setAside, stderr };
}

test("a copy of a served database has its accounts, for its owner only", async (t) => {
  const place = await newPlace(t);
  const daemon = startProgram(t, ["start", "--port", "0", "--db", place.database]);
  await daemon.ready;

  const args = ["backup", "create", place.copy, "--db", place.database, "--json"];
  const { code, stdout, stderr } = await runProgram(t, args);

  assert.equal(code, 0, stderr);
  const shown = JSON.parse(stdout) as Record<string, unknown>;
  const document = JSON.parse(readFileSync(`${place.copy}.json`, "utf8")) as Record<
    string,
    unknown
  >;
  for (const name of ["bytes", "tasks", "deliveries", "sha256"]) {
    assert.equal(shown[name], document[name]);
  }
  assert.equal(shown["bytes"], statSync(place.copy).size);
  for (const file of [place.copy, `${place.copy}.json`]) {
    assert.equal(statSync(file).mode & 0o777, 0o600);
  }
  assert.deepEqual(await logins(t, place.copy), ["ada"]);
});

test("create replaces a file with --replace alone", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const before = readFileSync(place.copy);
  await createAccount(t, place.database, "bob");

  const refused = await runProgram(t, ["backup", "create", place.copy, "--db", place.database]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /--replace/);
  assert.deepEqual(readFileSync(place.copy), before);

  const args = ["backup", "create", place.copy, "--replace", "--db", place.database];
  assert.equal((await runProgram(t, args)).code, 0);
  assert.equal((await runHere(t, ["backup", "check", place.copy])).code, 0);
  assert.deepEqual(await logins(t, place.copy), ["ada", "bob"]);
});

test("create does not replace the database, its -wal or its lock", async (t) => {
  const { database } = await newPlace(t);
  for (const suffix of ["", "-wal", ".lock"]) {
    const args = ["backup", "create", database + suffix, "--replace", "--db", database];
    assert.equal((await runHere(t, args)).code, 1);
  }
  assert.deepEqual(await logins(t, database), ["ada"]);
});

test("a check of a copy, or of a file that cp made, writes nothing", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const byHand = join(place.folder, "cp.db");
  writeFileSync(byHand, readFileSync(place.database));
  const before = contents(place.folder);

  const checked = await runHere(t, ["backup", "check", place.copy]);
  const copied = await runHere(t, ["backup", "check", byHand]);

  assert.deepEqual([checked.code, copied.code], [0, 0]);
  assert.match(checked.stdout, /0 tasks.*\n.*\nSHA-256 [0-9a-f]{64}\n/);
  assert.match(copied.stdout, /cp\.db\.json/);
  assert.deepEqual(contents(place.folder), before);
});

test("a check reports why a file is not a sound copy", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const whole = readFileSync(place.copy);
  const broken = join(place.folder, "broken.db");

  await assertRefused(t, broken, /broken\.db does not exist/);
  writeFileSync(broken, "no database");
  await assertRefused(t, broken, /broken\.db is not a database/);
  writeFileSync(broken, whole);
  truncateSync(broken, whole.length - 4096);
  await assertRefused(t, broken, /is cut short: it has \d+ of \d+ bytes/);
  writeFileSync(broken, Buffer.from(whole).fill(0xa5, 8192, 12_288));
  await assertRefused(t, broken, /broken\.db is damaged \(/);
  writeFileSync(broken, whole);
  writeFileSync(`${broken}-wal`, "something");
  await assertRefused(t, broken, /is in use, or was when it was copied/);
  const other = new Database(join(place.folder, "other.db"));
  other.exec("CREATE TABLE t (a)");
  other.close();
  await assertRefused(t, join(place.folder, "other.db"), /another program/);
  const newer = new Database(join(place.folder, "newer.db"));
  newer.exec("PRAGMA application_id = 0x70626b64; CREATE TABLE t (a); PRAGMA user_version = 999");
  newer.close();
  await assertRefused(t, join(place.folder, "newer.db"), /newer postbackd \(schema 999/);
  writeFileSync(join(place.folder, "older.db"), whole);
  const older = new Database(join(place.folder, "older.db"));
  older.pragma("user_version = 10");
  older.close();
  await assertRefused(t, join(place.folder, "older.db"), /before 0\.1\.0/);
  const changed = new Database(place.copy);
  changed.exec("UPDATE accounts SET login = 'eve'");
  changed.close();
  await assertRefused(t, place.copy, /copy\.db\.json describes: its SHA-256/);
});

test("restore replaces a stopped database, and keeps it with its -wal", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  // A daemon that was killed leaves its last commits in the -wal.
  const daemon = startProgram(t, ["start", "--port", "0", "--db", place.database]);
  await daemon.ready;
  const create = ["admin", "account", "create", "bob", "--db", place.database];
  assert.equal((await runProgram(t, create)).code, 0);
  daemon.kill("SIGKILL");
  await daemon.exit;
  assert(existsSync(`${place.database}-wal`));

  const args = ["backup", "restore", place.copy, "--db", place.database, "--deliveries", "resume"];
  const { code, stdout, stderr } = await runHere(t, args);

  assert.equal(code, 0, stderr);
  assert(!existsSync(`${place.database}-wal`));
  assert.deepEqual(await logins(t, place.database), ["ada"]);
  const aside = /(\/\S*\.replaced-\d{8}T\d{6}Z)/.exec(stdout)?.[1] ?? assert.fail(stdout);
  assert.deepEqual(await logins(t, aside), ["ada", "bob"]);
  assert.equal((await runHere(t, ["backup", "check", place.copy])).code, 0);
});

test("restore replaces no served database, and none by a damaged copy", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const daemon = startProgram(t, ["start", "--port", "0", "--db", place.database]);
  await daemon.ready;
  const args = ["backup", "restore", place.copy, "--db", place.database, "--deliveries", "pause"];

  const served = await runHere(t, args);
  assert.equal(served.code, 1);
  assert.match(served.stderr, new RegExp(`process ${daemon.pid}`));

  assert.deepEqual(await daemon.stop(), { code: 0, signal: null });
  truncateSync(place.copy, 8192);
  const before = readFileSync(place.database);
  const damaged = await runHere(t, args);
  assert.equal(damaged.code, 1);
  assert.match(damaged.stderr, /another backup; .*not changed/);
  assert.deepEqual(readFileSync(place.database), before);
});

for (const [what, sql] of [
  ["a task without its input", "DELETE FROM task_inputs"],
  ["a delivery without its task", "DELETE FROM tasks"],
] as const) {
  test(`check, restore and doctor refuse a copy with ${what}`, async (t) => {
    const { folder, database, copy } = await newPlace(t);
    const store = await openTestStore(t, { file: database });
    const task = newTask({ inputText: '{"a":1}', postback: webhook("hooks.example.com") });
    await store.insertTasks(newPost(1, [task]));
    await store.close();
    const lost = new Database(database);
    lost.exec(`PRAGMA foreign_keys = OFF; ${sql}`);
    lost.close();
    writeFileSync(copy, readFileSync(database));

    await assertRefused(t, copy, /copy\.db is damaged \(.* missing/);
    const restored = join(folder, "restored.db");
    const args = ["backup", "restore", copy, "--db", restored, "--deliveries", "resume"];
    assert.equal((await runHere(t, args)).code, 1);
    assert(!existsSync(restored));
    const doctor = ["doctor", "--json", "--db", database, "--dns-server", "127.0.0.1:9"];
    const { stdout } = await runHere(t, doctor);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; verdict: string }[] };
    assert.equal(findings.find(({ check }) => check === "content")?.verdict, "failed");
  });
}

test("restore names the files that it keeps, and a backup without its document", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);

  const first = await restored(t, place);
  assert.deepEqual(first.setAside.map(existsSync), [true]);
  assert.equal(first.stderr, "");
  rmSync(place.database);
  writeFileSync(`${place.database}-wal`, "");
  rmSync(`${place.copy}.json`);
  const second = await restored(t, place);
  assert.deepEqual(second.setAside.map(existsSync), [true]);
  assert.match(second.setAside.join(), /-wal$/);
  assert.match(second.stderr, /copy\.db\.json/);
  assert.deepEqual(
    (await restored(t, { ...place, database: join(place.folder, "new.db") })).setAside,
    [],
  );
});

test("restore --deliveries pause pauses all webhooks", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);

  const restored = join(place.folder, "restored.db");
  const args = ["backup", "restore", place.copy, "--db", restored, "--deliveries", "pause"];
  const { code, stderr } = await runHere(t, args);

  assert.equal(code, 0, stderr);
  const database = new Database(restored);
  const pauses = database.prepare("SELECT account_seq, host, reason FROM delivery_pauses").all();
  database.close();
  assert.deepEqual(pauses, [{ account_seq: null, host: null, reason: "restored from a backup" }]);
});

test("backup refuses PostgreSQL and names its tools", async (t) => {
  const { copy } = await newPlace(t);
  const server = ["--db", "postgres://postbackd@127.0.0.1:1/postbackd"];
  const restore = ["restore", copy, "--deliveries", "pause"];
  for (const words of [["create", copy], restore]) {
    const { code, stderr } = await runHere(t, ["backup", ...words, ...server]);
    assert.equal(code, 1);
    assert.match(stderr, /pg_dump.*pg_restore/);
  }
  assert(!existsSync(copy));
});

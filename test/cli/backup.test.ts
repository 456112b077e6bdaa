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

interface Place {
  readonly folder: string;
  readonly database: string;
  readonly copy: string;
}

/** A folder with a database in which one account is. */
async function newPlace(t: TestContext): Promise<Place> {
  const folder = temporaryFolder(t);
  const database = join(folder, "a.db");
  const made = await runProgram(t, ["admin", "account", "create", "ada", "--db", database]);
  assert.equal(made.code, 0, made.stderr);
  return { folder, database, copy: join(folder, "copy.db") };
}

async function makeCopy(t: TestContext, { database, copy }: Place): Promise<void> {
  const { code, stderr } = await runProgram(t, ["backup", "create", copy, "--db", database]);
  assert.equal(code, 0, stderr);
}

/** The logins in a database. */
async function logins(t: TestContext, database: string): Promise<readonly string[]> {
  const { stdout } = await runProgram(t, ["admin", "account", "list", "--json", "--db", database]);
  const { accounts } = JSON.parse(stdout) as { accounts: { login: string }[] };
  return accounts.map(({ login }) => login);
}

/** All files of a folder with what they hold. */
function contents(folder: string): ReadonlyMap<string, Buffer> {
  return new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
}

async function assertRefused(t: TestContext, copy: string, reason: RegExp): Promise<void> {
  const { code, stdout } = await runProgram(t, ["backup", "check", copy]);
  assert.equal(code, 1, stdout);
  assert.match(stdout, reason);
}

test("a copy that is made while a daemon serves holds what was there, for its owner only", async (t) => {
  const place = await newPlace(t);
  const daemon = startProgram(t, ["start", "--port", "0", "--db", place.database]);
  await daemon.ready;

  const args = ["backup", "create", place.copy, "--db", place.database, "--json"];
  const { code, stdout, stderr } = await runProgram(t, args);

  assert.equal(code, 0, stderr);
  const told = JSON.parse(stdout) as Record<string, unknown>;
  const document = JSON.parse(readFileSync(`${place.copy}.json`, "utf8")) as Record<
    string,
    unknown
  >;
  for (const name of ["bytes", "tasks", "deliveries", "sha256"]) {
    assert.equal(told[name], document[name]);
  }
  assert.equal(told["bytes"], statSync(place.copy).size);
  for (const file of [place.copy, `${place.copy}.json`]) {
    assert.equal(statSync(file).mode & 0o777, 0o600);
  }
  assert.deepEqual(await logins(t, place.copy), ["ada"]);
});

test("a file of that name is replaced only when that is asked for", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const before = readFileSync(place.copy);
  assert.equal(
    (await runProgram(t, ["admin", "account", "create", "bob", "--db", place.database])).code,
    0,
  );

  const refused = await runProgram(t, ["backup", "create", place.copy, "--db", place.database]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /is there already: .*--replace/);
  assert.deepEqual(readFileSync(place.copy), before);

  const args = ["backup", "create", place.copy, "--replace", "--db", place.database];
  assert.equal((await runProgram(t, args)).code, 0);
  assert.equal((await runProgram(t, ["backup", "check", place.copy])).code, 0);
  assert.deepEqual(await logins(t, place.copy), ["ada", "bob"]);
});

test("no copy takes the place of the database itself, of its -wal or of its lock", async (t) => {
  const { database } = await newPlace(t);
  for (const suffix of ["", "-wal", ".lock"]) {
    const args = ["backup", "create", database + suffix, "--replace", "--db", database];
    const { code, stderr } = await runProgram(t, args);
    assert.equal(code, 1);
    assert.match(stderr, /belongs to the database itself/);
  }
  assert.deepEqual(await logins(t, database), ["ada"]);
});

test("a check writes nothing, beside the copy or into it, and says what is in it", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const before = contents(place.folder);

  const { code, stdout } = await runProgram(t, ["backup", "check", place.copy]);

  assert.equal(code, 0);
  assert.match(
    stdout,
    /copy\.db is whole: 0 tasks, .* bytes\.\nMade .* the same since\.\nSHA-256 [0-9a-f]{64}\n/,
  );
  assert.deepEqual(contents(place.folder), before);
});

test("a copy that cp made of a stopped database is checked, and stays alone in its folder", async (t) => {
  const place = await newPlace(t);
  writeFileSync(place.copy, readFileSync(place.database));
  const before = contents(place.folder);

  const { code, stdout } = await runProgram(t, ["backup", "check", place.copy]);

  assert.equal(code, 0, stdout);
  assert.match(stdout, /There is no .*copy\.db\.json to compare it with/);
  assert.deepEqual(contents(place.folder), before);
});

test("a check says why a file is no copy", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const whole = readFileSync(place.copy);
  const broken = join(place.folder, "broken.db");

  await assertRefused(t, broken, /broken\.db cannot be read/);
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
});

test("a check refuses another program's database, and one of a newer schema", async (t) => {
  const { folder } = await newPlace(t);
  const other = new Database(join(folder, "other.db"));
  other.exec("CREATE TABLE t (a)");
  other.close();
  await assertRefused(t, join(folder, "other.db"), /is a database of another program/);
  const newer = new Database(join(folder, "newer.db"));
  newer.exec("PRAGMA application_id = 0x70626b64; CREATE TABLE t (a); PRAGMA user_version = 999");
  newer.close();
  await assertRefused(t, join(folder, "newer.db"), /made by a newer postbackd \(schema 999/);
});

test("a copy that is not what its document describes is refused", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const copy = new Database(place.copy);
  copy.exec("UPDATE accounts SET login = 'eve'");
  copy.close();

  await assertRefused(
    t,
    place.copy,
    /is not the copy that .*copy\.db\.json describes: its SHA-256/,
  );
});

test("a copy takes the place of a stopped database, which is set aside with its -wal", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  // A daemon that was killed leaves its last commits in the -wal.
  const daemon = startProgram(t, ["start", "--port", "0", "--db", place.database]);
  await daemon.ready;
  assert.equal(
    (await runProgram(t, ["admin", "account", "create", "bob", "--db", place.database])).code,
    0,
  );
  daemon.kill("SIGKILL");
  await daemon.exit;
  assert(existsSync(`${place.database}-wal`));

  const args = ["backup", "restore", place.copy, "--db", place.database, "--deliveries", "resume"];
  const { code, stdout, stderr } = await runProgram(t, args);

  assert.equal(code, 0, stderr);
  assert.match(stdout, /0 webhooks wait\. They go out at the next start\./);
  assert(!existsSync(`${place.database}-wal`));
  assert.deepEqual(await logins(t, place.database), ["ada"]);
  const aside = /before is (.*\.replaced-\d{8}T\d{6}Z)\./.exec(stdout)?.[1] ?? assert.fail(stdout);
  assert.deepEqual(await logins(t, aside), ["ada", "bob"]);
  assert.equal((await runProgram(t, ["backup", "check", place.copy])).code, 0);
});

test("a served database is not replaced, nor is one by a copy that is not whole", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const daemon = startProgram(t, ["start", "--port", "0", "--db", place.database]);
  await daemon.ready;
  const args = ["backup", "restore", place.copy, "--db", place.database, "--deliveries", "pause"];

  const served = await runProgram(t, args);
  assert.equal(served.code, 1);
  assert.match(served.stderr, /is already served by process \d+/);

  assert.deepEqual(await daemon.stop(), { code: 0, signal: null });
  truncateSync(place.copy, 8192);
  const before = readFileSync(place.database);
  const broken = await runProgram(t, args);
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /is cut short/);
  assert.deepEqual(readFileSync(place.database), before);
});

for (const [what, sql] of [
  ["a task without its input", "DELETE FROM task_inputs"],
  ["a delivery without its task", "DELETE FROM tasks"],
] as const) {
  test(`a copy that has ${what} is damaged, to a check, a restore and doctor`, async (t) => {
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
    assert.equal((await runProgram(t, args)).code, 1);
    assert(!existsSync(restored));
    const doctor = ["doctor", "--json", "--db", database, "--dns-server", "127.0.0.1:9"];
    const { stdout } = await runProgram(t, doctor);
    const { findings } = JSON.parse(stdout) as { findings: { check: string; verdict: string }[] };
    assert.equal(findings.find(({ check }) => check === "content")?.verdict, "failed");
  });
}

test("a check refuses a copy of a version before 0.1.0", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);
  const older = new Database(place.copy);
  older.pragma("user_version = 10");
  older.close();
  rmSync(`${place.copy}.json`);

  await assertRefused(t, place.copy, /has schema version 10 of a postbackd before 0\.1\.0/);
});

test("with nobody to ask, a restore must be told what becomes of the webhooks", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);

  const args = ["backup", "restore", place.copy, "--db", place.database];
  const { code, stderr } = await runProgram(t, args);

  assert.equal(code, 2);
  assert.match(stderr, /--deliveries is missing: pause keeps .* resume sends/);
});

test("a restore with pause pauses all webhooks", async (t) => {
  const place = await newPlace(t);
  await makeCopy(t, place);

  const restored = join(place.folder, "restored.db");
  const args = ["backup", "restore", place.copy, "--db", restored, "--deliveries", "pause"];
  const { code, stdout, stderr } = await runProgram(t, args);

  assert.equal(code, 0, stderr);
  assert.match(stdout, /None goes out until 'postbackd admin delivery resume'/);
  const database = new Database(restored);
  const pauses = database.prepare("SELECT account_seq, host, reason FROM delivery_holds").all();
  database.close();
  assert.deepEqual(pauses, [{ account_seq: null, host: null, reason: "restored from a backup" }]);
});

test("on a server every command says which tools make and restore copies there", async (t) => {
  const { copy } = await newPlace(t);
  const server = ["--db", "postgres://postbackd@127.0.0.1:1/postbackd"];
  const restore = ["restore", copy, "--deliveries", "pause"];
  for (const words of [["create", copy], restore]) {
    const { code, stderr } = await runProgram(t, ["backup", ...words, ...server]);
    assert.equal(code, 1);
    assert.match(stderr, /pg_dump --format=custom.*pg_restore.*pg_basebackup/);
  }
  assert(!existsSync(copy));
});

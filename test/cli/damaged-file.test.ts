import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { runProgram, temporaryFolder } from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";
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
  const connection = new Database(file);
  connection.exec("CREATE TABLE other (a); DROP TABLE other");
  const wal = readFileSync(`${file}-wal`);
  connection.close();
  rmSync(file);
  writeFileSync(`${file}-wal`, wal);

  for (const command of ["start --port 0", "admin account create bob"]) {
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

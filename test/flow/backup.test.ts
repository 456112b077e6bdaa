import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { judgeCopy } from "../../src/ops/backup.ts";
import { startBackup } from "../../src/store/sqlite/backup.ts";
import { restoreCopy } from "../../src/store/sqlite/restore.ts";
import { readServedFile } from "../../src/store/sqlite/served-file.ts";
import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask } from "../http/answer.ts";
import { signInOperator } from "../http/session-requests.ts";
import { DAY, MINUTE, World } from "./world.ts";

const NOW = Date.parse("2030-01-31T02:59:00.000Z");

/** A daemon that keeps one backup, and makes the next in a minute. */
function start(t: TestContext, more = 'schedule = "0 3 * * *"'): Promise<World> {
  return World.start(t, { now: NOW, toml: `[backup]\nkeep = 1\n${more}\n` });
}

/** Lets time pass until so many backups were made: another thread makes them. */
async function passUntilMade({ clock, daemon }: World, ms: number, times = 1): Promise<void> {
  clock.advance(ms);
  const { logLines, url } = daemon;
  const made = () => logLines.filter((line) => line.includes('"made a backup"')).length;
  while (made() < times) await ask(url, { target: "/healthz" });
}

/** The name of a database's backup with this number. */
function nameOf({ file }: Pick<TestDaemon, "file">, number: number): string {
  const { installation } = readServedFile(file);
  assert(installation !== null);
  return `test-${installation}-${String(number).padStart(6, "0")}.db`;
}

function withDocument(name: string): readonly string[] {
  return [name, `${name}.json`];
}

/** The kernel's list of the locks of this process on a file. Without them another process removes the -wal. */
function locksOn(file: string): readonly string[] {
  const { ino } = statSync(file);
  const lines = readFileSync("/proc/locks", "utf8").split("\n");
  return lines.filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `));
}

test("backups are made at the times of the schedule, in UTC, the newest are kept, and the file stays locked", async (t) => {
  const world = await start(t);
  const first = world.daemon;
  const backups = join(first.folder, "backups");
  assert.deepEqual(readdirSync(backups), []);
  const before = locksOn(first.file);
  assert.notEqual(before.length, 0);

  await passUntilMade(world, MINUTE);
  await passUntilMade(world, DAY, 2);

  assert.equal(locksOn(first.file).length, before.length);
  await world.restart();
  const name = nameOf(first, 2);
  assert.deepEqual(readdirSync(backups), withDocument(name));
  const file = join(backups, name);
  assert.equal(judgeCopy(file).kind, "whole");
  const { created_at, bytes } = documentOf(file);
  assert.equal(created_at, "2030-02-01T03:00:00.000Z");
  const operator = await signInOperator(world.daemon, world.clock.now());
  const { fields } = await operator.get("/system");
  assert.deepEqual((fields as unknown as { backups: unknown }).backups, {
    newest: { file, created_at, bytes },
    failure: null,
  });
});

interface ShownBackup {
  readonly created_at: string;
  readonly bytes: number;
}

function documentOf(file: string): ShownBackup {
  return JSON.parse(readFileSync(`${file}.json`, "utf8")) as ShownBackup;
}

test("a new backup replaces a backup that a clock ahead dated later", async (t) => {
  const world = await start(t);
  await world.restart(undefined, { clock: createFakeClock({ now: NOW + 300 * DAY }) });
  await passUntilMade(world, MINUTE);
  await world.restart(undefined, { clock: createFakeClock({ now: NOW }) });

  await passUntilMade(world, MINUTE);

  await world.daemon.daemon.stop();
  const backups = join(world.daemon.folder, "backups");
  const name = nameOf(world.daemon, 2);
  assert.deepEqual(readdirSync(backups), withDocument(name));
  assert.equal(documentOf(join(backups, name)).created_at, "2030-01-31T03:00:00.000Z");
});

test("two databases of the same name each keep their own backups in one folder", async (t) => {
  const backups = tempFolder(t);
  const more = `schedule = "* * * * *"\nfolder = "${backups}"`;
  const [first, second] = [await start(t, more), await start(t, more)];
  // The first daemon must not remove the unfinished backup of the second.
  const part = `${nameOf(second.daemon, 7)}.part`;
  writeFileSync(join(backups, part), "");
  await first.restart();

  for (const world of [first, second]) await passUntilMade(world, MINUTE);
  for (const { daemon } of [first, second]) await daemon.daemon.stop();

  const kept = [first, second].flatMap(({ daemon }) => withDocument(nameOf(daemon, 1)));
  assert.deepEqual(readdirSync(backups).toSorted(), [...kept, part].toSorted());
});

test("other files of the folder stay, and the remains of an interrupted backup are removed", async (t) => {
  const world = await start(t, 'schedule = "0 3 * * *"\nfolder = "elsewhere"');
  const { folder } = world.daemon;
  const backups = join(folder, "elsewhere");
  const names = ["notes.txt", "test-0123456789ab-000001.db", `${nameOf(world.daemon, 1)}.old`];
  await world.restart(() => {
    for (const name of [...names, `${nameOf(world.daemon, 3)}.part`])
      writeFileSync(join(backups, name), "");
  });

  await passUntilMade(world, MINUTE);

  await world.daemon.daemon.stop();
  const made = withDocument(nameOf(world.daemon, 1));
  assert.deepEqual(readdirSync(backups).toSorted(), [...names, ...made].toSorted());
});

test("a stop interrupts a backup and leaves no part of it", async (t) => {
  const { clock, daemon } = await start(t);
  clock.advance(MINUTE);

  await daemon.daemon.stop();

  assert.deepEqual(readdirSync(join(daemon.folder, "backups")), []);
  assert.equal(daemon.logLines.filter((line) => line.includes("broke off a backup")).length, 1);
});

const TASKS_PER_ROUND = 60;
const TASK = { type: "echo", input: { text: "x".repeat(2000) } };

/** The ids of all tasks in a stopped database. */
function idsIn(file: string): ReadonlySet<string> {
  const database = new Database(file, { readonly: true });
  const ids = database.prepare<[], string>("SELECT id FROM tasks").pluck().all();
  database.close();
  return new Set(ids);
}

test("a backup made under load and restored elsewhere has every task acknowledged before it", async (t) => {
  const daemon = await startTestDaemon(t);
  const answered: string[] = [];
  let isPosting = true;
  const posting = (async () => {
    while (isPosting) {
      const { tasks } = await daemon.post([TASK, TASK, TASK]);
      answered.push(...tasks.map(({ id }) => id));
    }
  })();

  const folder = tempFolder(t);
  const database = join(folder, "test.db");
  for (let round = 1; round <= 3; round++) {
    while (answered.length < round * TASKS_PER_ROUND) await daemon.ready();
    const before = [...answered];
    const file = join(daemon.folder, `copy-${round}.db`);
    const order = {
      database: daemon.file,
      file,
      mayReplace: false,
      isServedHere: true,
      now: Date.now(),
    };
    await startBackup(order).ended;
    const decide = async () => "resume" as const;
    await restoreCopy({ copy: file, database, decide, now: round * 1000, user: "tester" });
    const found = idsIn(database);
    assert.deepEqual(
      before.filter((id) => !found.has(id)),
      [],
      `round ${round}`,
    );
  }
  isPosting = false;
  await posting;

  const { account } = daemon;
  const restored = await startTestDaemon(t, { folder, account });
  for (const id of answered.slice(0, TASKS_PER_ROUND)) {
    assert.deepEqual((await restored.get(id)).data, TASK);
  }
});

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import { judgeCopy } from "../../src/ops/backup.ts";
import { readServedFile } from "../../src/store/sqlite/served-file.ts";
import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask } from "../http/answer.ts";
import { signInOperator } from "../http/operator-requests.ts";

const NOW = Date.parse("2030-01-31T02:59:00.000Z");
const NIGHTLY = '[backup]\nschedule = "0 3 * * *"\n';

/** Waits for so many lines of the log: another thread makes backups. */
async function said({ logLines, url }: TestDaemon, what: RegExp, times = 1): Promise<string> {
  for (;;) {
    const found = logLines.filter((line) => what.test(line));
    if (found.length >= times) return found.at(-1) ?? "";
    await ask(url, { target: "/healthz" });
  }
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
  const clock = createFakeClock({ now: NOW });
  const toml = `${NIGHTLY}keep = 1\n`;
  const first = await startTestDaemon(t, { clock, toml });
  const backups = join(first.folder, "backups");
  assert.deepEqual(readdirSync(backups), []);
  const before = locksOn(first.file);
  assert.notEqual(before.length, 0);

  for (const ms of [60_000, DAY_MS]) {
    clock.advance(ms);
    await said(first, /"made a backup"/, ms === DAY_MS ? 2 : 1);
  }

  assert.equal(locksOn(first.file).length, before.length);
  await first.daemon.stop();
  const name = nameOf(first, 2);
  assert.deepEqual(readdirSync(backups), withDocument(name));
  const file = join(backups, name);
  assert.equal(judgeCopy(file).kind, "whole");
  const { created_at, bytes } = JSON.parse(readFileSync(`${file}.json`, "utf8")) as ShownBackup;
  assert.equal(created_at, "2030-02-01T03:00:00.000Z");

  const { folder, account } = first;
  const daemon = await startTestDaemon(t, { clock, folder, account, toml });
  const operator = await signInOperator(daemon, clock.now());
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

test("a new backup replaces a backup that a clock ahead dated later", async (t) => {
  const folder = tempFolder(t);
  const backups = join(folder, "backups");
  const toml = `${NIGHTLY}keep = 1\n`;
  const ahead = createFakeClock({ now: NOW + 300 * DAY_MS });
  const first = await startTestDaemon(t, { clock: ahead, folder, toml });
  ahead.advance(60_000);
  await said(first, /"made a backup"/);
  await first.daemon.stop();

  const clock = createFakeClock({ now: NOW });
  const second = await startTestDaemon(t, { clock, folder, account: first.account, toml });
  clock.advance(60_000);
  await said(second, /"made a backup"/);
  await second.daemon.stop();

  assert.equal(readdirSync(backups).length, 2);
  const [document = ""] = readdirSync(backups).filter((name) => name.endsWith(".json"));
  const { created_at: madeAt } = JSON.parse(
    readFileSync(join(backups, document), "utf8"),
  ) as Record<string, unknown>;
  assert.equal(madeAt, "2030-01-31T03:00:00.000Z");
});

test("two databases of the same name each keep their own backups in one folder", async (t) => {
  const backups = tempFolder(t);
  const toml = `[backup]\nschedule = "* * * * *"\nkeep = 1\nfolder = "${backups}"\n`;
  const clock = createFakeClock({ now: NOW });
  const daemons = [
    await startTestDaemon(t, { clock, toml }),
    await startTestDaemon(t, { clock, toml }),
  ];
  // The first daemon must not remove the unfinished backup of the second.
  const [first, second] = daemons as [TestDaemon, TestDaemon];
  const part = `${nameOf(second, 7)}.part`;
  writeFileSync(join(backups, part), "");
  await first.daemon.stop();
  const again = await startTestDaemon(t, {
    clock,
    folder: first.folder,
    account: first.account,
    toml,
  });

  clock.advance(60_000);
  for (const daemon of [again, second]) await said(daemon, /"made a backup"/);
  for (const { daemon } of [again, second]) await daemon.stop();

  const kept = [again, second].map((daemon) => nameOf(daemon, 1));
  assert.deepEqual(
    readdirSync(backups).toSorted(),
    [...kept.flatMap(withDocument), part].toSorted(),
  );
});

test("other files of the folder stay, and the remains of an interrupted backup are removed", async (t) => {
  const folder = tempFolder(t);
  const backups = join(folder, "elsewhere");
  mkdirSync(backups);
  const clock = createFakeClock({ now: NOW });
  const toml = `${NIGHTLY}keep = 1\nfolder = "elsewhere"\n`;
  const first = await startTestDaemon(t, { clock, folder, toml });
  await first.daemon.stop();
  const others = ["notes.txt", "test-0123456789ab-000001.db", `${nameOf(first, 1)}.old`];
  for (const name of [...others, `${nameOf(first, 3)}.part`])
    writeFileSync(join(backups, name), "");
  const { account } = first;
  const daemon = await startTestDaemon(t, { clock, folder, account, toml });

  clock.advance(60_000);
  await said(daemon, /"made a backup"/);

  const made = nameOf(daemon, 1);
  await daemon.daemon.stop();
  assert.deepEqual(readdirSync(backups).toSorted(), [...others, ...withDocument(made)].toSorted());
});

test("a stop interrupts a backup and leaves no part of it", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: NIGHTLY });
  clock.advance(60_000);

  await daemon.daemon.stop();

  // The backup may have ended before.
  const left = readdirSync(join(daemon.folder, "backups"));
  const isMade = daemon.logLines.some((line) => line.includes("made a backup"));
  assert(isMade || daemon.logLines.some((line) => line.includes("broke off a backup")));
  assert.equal(left.length, isMade ? 2 : 0, left.join());
});

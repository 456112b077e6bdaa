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

/** Waits for a line of the log so many times; backups are made in a thread of their own. */
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

test("copies are made at the times of the schedule, in UTC, and the newest are kept", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: `${NIGHTLY}keep = 2\n` });
  const folder = join(daemon.folder, "backups");
  assert.deepEqual(readdirSync(folder), []);

  for (let day = 1; day <= 3; day++) {
    clock.advance(day === 1 ? 60_000 : DAY_MS);
    await said(daemon, /"made a backup"/, day);
  }
  await daemon.daemon.stop();

  const kept = [2, 3].map((number) => nameOf(daemon, number));
  assert.deepEqual(readdirSync(folder), kept.flatMap(withDocument));
  for (const name of kept) assert.equal(judgeCopy(join(folder, name)).kind, "whole");
  const { created_at: madeAt } = JSON.parse(
    readFileSync(join(folder, `${kept.at(-1)}.json`), "utf8"),
  ) as Record<string, unknown>;
  assert.equal(madeAt, "2030-02-02T03:00:00.000Z");
});

test("a backup that was made while the clock was ahead gives way to the newest one", async (t) => {
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

test("two databases of one file name keep their backups in one folder, each its own", async (t) => {
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

  for (const times of [1, 2]) {
    clock.advance(60_000);
    for (const daemon of [again, second]) await said(daemon, /"made a backup"/, times);
  }
  for (const { daemon } of [again, second]) await daemon.stop();

  const kept = [again, second].map((daemon) => nameOf(daemon, 2));
  assert.deepEqual(
    readdirSync(backups).toSorted(),
    [...kept.flatMap(withDocument), part].toSorted(),
  );
});

test("a database that is restored from a backup is another installation", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: NIGHTLY });
  clock.advance(60_000);
  await said(daemon, /"made a backup"/);

  const { mode, installation } = readServedFile(join(daemon.folder, "backups", nameOf(daemon, 1)));

  assert.deepEqual({ mode, installation }, { mode: "start", installation: null });
});

/** The locks that this process has on a file, as the kernel lists them. */
function locksOn(file: string): readonly string[] {
  const { ino } = statSync(file);
  const lines = readFileSync("/proc/locks", "utf8").split("\n");
  return lines.filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `));
}

test("a backup leaves the daemon's locks on its file, or another process would remove its -wal", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: NIGHTLY });
  const before = locksOn(daemon.file);
  assert.notEqual(before.length, 0);

  clock.advance(60_000);
  await said(daemon, /"made a backup"/);

  assert.equal(locksOn(daemon.file).length, before.length);
});

test("files of other names in the folder stay, but what a crash left of a copy goes", async (t) => {
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

test("a backup that fails is an error in the log and a warning, and the daemon stays ready", async (t) => {
  const folder = tempFolder(t);
  // A file in the folder's place.
  writeFileSync(join(folder, "backups"), "");
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, folder, toml: NIGHTLY });

  clock.advance(60_000);
  const line = JSON.parse(await said(daemon, /the scheduled backup failed/)) as Record<
    string,
    unknown
  >;

  assert.equal(line["level"], "error");
  assert.equal(line["folder"], join(folder, "backups"));
  const { response, body } = await ask(daemon.url, { target: "/readyz" });
  assert.equal(response.status, 200);
  const warning = "the last backup failed at 2030-01-31T03:00:00.000Z; the log tells why";
  assert.deepEqual(body, { status: "ok", warnings: [warning] });
});

test("a stop breaks off the copy that is being made and leaves nothing of it", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: NIGHTLY });
  clock.advance(60_000);

  await daemon.daemon.stop();

  // It may have come to its end before.
  const left = readdirSync(join(daemon.folder, "backups"));
  const isMade = daemon.logLines.some((line) => line.includes("made a backup"));
  assert(isMade || daemon.logLines.some((line) => line.includes("broke off a backup")));
  assert.equal(left.length, isMade ? 2 : 0, left.join());
});

test("a schedule that names no time, or more than minutes, is refused", async (t) => {
  for (const schedule of ["0 3 * *", "every night", "0 0 31 2 *", "0 0 3 * * *", "60 * * * *"]) {
    const toml = `[backup]\nschedule = "${schedule}"\n`;
    await assert.rejects(
      startTestDaemon(t, { toml }),
      /backup\.schedule .*five fields as in a crontab/,
    );
  }
});

test("the operator sees the newest copy, also one of before the start", async (t) => {
  const folder = tempFolder(t);
  mkdirSync(join(folder, "backups"));
  const clock = createFakeClock({ now: NOW });
  const first = await startTestDaemon(t, { clock, folder, toml: NIGHTLY });
  clock.advance(60_000);
  await said(first, /"made a backup"/);
  await first.daemon.stop();
  const file = join(folder, "backups", nameOf(first, 1));
  const { bytes } = JSON.parse(readFileSync(`${file}.json`, "utf8")) as { bytes: number };

  const daemon = await startTestDaemon(t, { clock, folder, account: first.account, toml: NIGHTLY });

  const operator = await signInOperator(daemon, clock.now());
  const { fields } = await operator.get("/system");
  assert.deepEqual((fields as unknown as { backups: unknown }).backups, {
    newest: { file, created_at: "2030-01-31T03:00:00.000Z", bytes },
    failure: null,
  });
});

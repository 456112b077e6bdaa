import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { judgeCopy } from "../../src/daemon/backup.ts";
import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask } from "../http/answer.ts";
import { signInOperator } from "../http/operator-requests.ts";

const NOW = Date.parse("2030-01-31T02:59:00.000Z");
const DAY_MS = 86_400_000;
const NIGHTLY = '[backup]\nschedule = "0 3 * * *"\n';

/** Waits for a line of the log so many times; backups are made in a thread of their own. */
async function said({ logLines, url }: TestDaemon, what: RegExp, times = 1): Promise<string> {
  for (;;) {
    const found = logLines.filter((line) => what.test(line));
    if (found.length >= times) return found.at(-1) ?? "";
    await ask(url, { target: "/healthz" });
  }
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

  const kept = ["20300201", "20300202"].map((each) => `test-${each}T030000Z.db`);
  assert.deepEqual(
    readdirSync(folder),
    kept.flatMap((name) => [name, `${name}.json`]),
  );
  for (const name of kept) assert.equal(judgeCopy(join(folder, name)).kind, "whole");
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
  const others = ["notes.txt", "other-20300101T030000Z.db", "test-20300101T030000Z.db.old"];
  for (const name of [...others, "test-20300130T030000Z.db.part"])
    writeFileSync(join(backups, name), "");
  const clock = createFakeClock({ now: NOW });
  const toml = `${NIGHTLY}keep = 1\nfolder = "elsewhere"\n`;
  const daemon = await startTestDaemon(t, { clock, folder, toml });

  clock.advance(60_000);
  await said(daemon, /"made a backup"/);

  const made = "test-20300131T030000Z.db";
  await daemon.daemon.stop();
  assert.deepEqual(readdirSync(backups).toSorted(), [...others, made, `${made}.json`].toSorted());
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
  const file = join(folder, "backups", "test-20300131T030000Z.db");
  const { bytes } = JSON.parse(readFileSync(`${file}.json`, "utf8")) as { bytes: number };

  const daemon = await startTestDaemon(t, { clock, folder, account: first.account, toml: NIGHTLY });

  const operator = await signInOperator(daemon, clock.now());
  const { fields } = await operator.get("/system");
  assert.deepEqual((fields as unknown as { backups: unknown }).backups, {
    newest: { file, created_at: "2030-01-31T03:00:00.000Z", bytes },
    failure: null,
  });
});

import assert from "node:assert/strict";
import { copyFileSync, linkSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import Database from "better-sqlite3";

import {
  createTestAccount,
  startTestDaemon,
  tempFolder,
  type TestDaemon,
} from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask, posting } from "../http/answer.ts";
import { MINUTE, NOW, SECOND } from "./world.ts";

const PAGE = 4096;

async function codeOfPost(daemon: TestDaemon): Promise<number | null> {
  return (await ask(daemon.url, posting(daemon, "{}"))).code;
}

/** Checks that the log says once that the daemon acknowledges nothing. Returns that line. */
function failureOf({ logLines }: TestDaemon): string {
  const lines = logLines.filter((line) => line.includes("nothing is acknowledged"));
  assert.equal(lines.length, 1, lines.join(""));
  return lines[0] ?? "";
}

const deeds: readonly (readonly [what: string, act: (file: string) => void, reason: RegExp])[] = [
  ["removed", (file) => rmSync(file), /database file was removed/],
  ["renamed", (file) => renameSync(file, `${file}.old`), /database file was removed/],
  ["replaced by a copy", replaceByCopy, /database file was replaced/],
  ["linked twice", (file) => linkSync(file, `${file}2`), /second/],
  ["left without its -wal", (file) => rmSync(`${file}-wal`), /-wal .* removed/],
  ["given another -wal", otherWal, /-wal .* replaced/],
  ["left without its -shm", (file) => rmSync(`${file}-shm`), /-shm .* removed/],
];

function replaceByCopy(file: string): void {
  copyFileSync(file, `${file}.copy`);
  renameSync(`${file}.copy`, file);
}

function otherWal(file: string): void {
  // Created first: after the removal it could get the same inode.
  writeFileSync(`${file}.new`, "");
  renameSync(`${file}.new`, `${file}-wal`);
}

for (const [what, act, reason] of deeds) {
  test(`a daemon acknowledges nothing a second after its file was ${what}`, async (t) => {
    const clock = createFakeClock({ now: NOW });
    const daemon = await startTestDaemon(t, { clock });
    assert.equal(await codeOfPost(daemon), 20000);
    await daemon.daemon.idle();

    act(daemon.file);
    clock.advance(SECOND);

    const ready = await ask(daemon.url, { target: "/readyz" });
    assert.equal(ready.response.status, 503);
    assert.match(String((ready.body as { readonly reason?: unknown }).reason), reason);
    assert.equal(await codeOfPost(daemon), 50300);
    const line = failureOf(daemon);
    assert.equal(JSON.parse(line).level, "error");
    assert.ok(line.includes(daemon.file));
    clock.advance(10 * SECOND);
    assert.equal(await codeOfPost(daemon), 50300);
    assert.doesNotMatch(daemon.logLines.join(""), /restart resumes/);
  });
}

/** Damages an index that an idle daemon does not read. */
function damageIndex(file: string): void {
  const connection = new Database(file, { readonly: true });
  const find =
    "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_access_requests_1'";
  const root = connection.prepare<[], number>(find).pluck().get() ?? assert.fail("no such index");
  connection.close();
  const content = readFileSync(file);
  writeFileSync(file, content.fill(0, (root - 1) * PAGE, root * PAGE));
}

test("a check in the background finds damage that no query reads, within minutes of a start", async (t) => {
  const folder = tempFolder(t);
  const file = join(folder, "test.db");
  const account = await createTestAccount(file);
  damageIndex(file);
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, folder, account });
  assert.equal(await codeOfPost(daemon), 20000);
  const isReady = async (): Promise<boolean> =>
    (await ask(daemon.url, { target: "/readyz" })).response.status === 200;

  clock.advance(MINUTE);
  // The check reads in a thread of its own.
  while (await isReady()) clock.advance(SECOND);

  assert.equal(await codeOfPost(daemon), 50300);
  assert.match(failureOf(daemon), /damaged.*postbackd backup restore/);
});

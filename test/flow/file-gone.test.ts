import assert from "node:assert/strict";
import { copyFileSync, linkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask, posting } from "../http/answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

const deeds: readonly (readonly [what: string, act: (file: string) => void, reason: RegExp])[] = [
  ["removed", (file) => rmSync(file), /^the database file was removed while it was served$/],
  ["renamed", (file) => renameSync(file, `${file}.old`), /^the database file was removed/],
  ["replaced by a copy", replaceByCopy, /^the database file was replaced while it was served$/],
  ["linked twice", (file) => linkSync(file, `${file}2`), /^the database file was given a second/],
  ["left without its -wal", (file) => rmSync(`${file}-wal`), /^the -wal file .* was removed/],
  ["given another -wal", otherWal, /^the -wal file of the database was replaced/],
  ["left without its -shm", (file) => rmSync(`${file}-shm`), /^the -shm file .* was removed/],
];

function replaceByCopy(file: string): void {
  copyFileSync(file, `${file}.copy`);
  renameSync(`${file}.copy`, file);
}

function otherWal(file: string): void {
  // Made before the old one goes: else it could be given the same inode.
  writeFileSync(`${file}.new`, "");
  renameSync(`${file}.new`, `${file}-wal`);
}

for (const [what, act, reason] of deeds) {
  test(`a file that is ${what} while it is served stops all acknowledging within a second, also when nobody asks`, async (t) => {
    const clock = createFakeClock({ now: NOW });
    const daemon = await startTestDaemon(t, { clock });
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 20000);
    await daemon.daemon.idle();

    act(daemon.file);
    clock.advance(1000);

    const ready = await ask(daemon.url, { target: "/readyz" });
    assert.equal(ready.response.status, 503);
    assert.match(String((ready.body as { readonly reason?: unknown }).reason), reason);
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50300);
    const said = daemon.logLines.filter((line) => /nothing is acknowledged/.test(line));
    assert.equal(said.length, 1, said.join(""));
    assert.match(said[0] ?? "", /"level":"error".*stop the daemon.*start again/);
    assert.ok(said[0]?.includes(daemon.file));
    clock.advance(10_000);
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50300);
  });
}

import assert from "node:assert/strict";
import { copyFileSync, linkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { ask, posting } from "../http/answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

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
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 20000);
    await daemon.daemon.idle();

    act(daemon.file);
    clock.advance(1000);

    const ready = await ask(daemon.url, { target: "/readyz" });
    assert.equal(ready.response.status, 503);
    assert.match(String((ready.body as { readonly reason?: unknown }).reason), reason);
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50300);
    const lines = daemon.logLines.filter((line) => /nothing is acknowledged/.test(line));
    assert.equal(lines.length, 1, lines.join(""));
    assert.equal(JSON.parse(lines[0] ?? "").level, "error");
    assert.ok(lines[0]?.includes(daemon.file));
    clock.advance(10_000);
    assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50300);
  });
}

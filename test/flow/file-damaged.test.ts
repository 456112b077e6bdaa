import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import Database from "better-sqlite3";

import { createTestAccount, startTestDaemon, tempFolder } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { ask, posting } from "../http/answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const PAGE = 4096;

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

/** Lets seconds pass until a condition holds: the check reads in a thread of its own. */
async function passUntil(clock: FakeClock, holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) clock.advance(1000);
}

test("a check in the background finds damage that no query reads, within minutes of a start", async (t) => {
  const folder = tempFolder(t);
  const file = join(folder, "test.db");
  const account = await createTestAccount(file);
  damageIndex(file);
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, folder, account });
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 20000);

  clock.advance(60_000);
  await passUntil(clock, async () => {
    const ready = await ask(daemon.url, { target: "/readyz" });
    return ready.response.status === 503;
  });

  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 50300);
  const lines = daemon.logLines.filter((line) => /nothing is acknowledged/.test(line));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /damaged.*postbackd backup restore/);
});

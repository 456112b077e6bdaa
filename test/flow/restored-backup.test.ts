import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import Database from "better-sqlite3";

import { startBackup } from "../../src/store/sqlite/backup.ts";
import { restoreCopy } from "../../src/store/sqlite/restore.ts";
import { startTestDaemon, tempFolder } from "../helpers/daemon.ts";

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

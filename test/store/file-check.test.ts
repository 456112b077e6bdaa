import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import Database from "better-sqlite3";

import {
  placeOf,
  refuseDamagedFile,
  restorePart,
} from "../../src/store/sqlite/machine/file-check.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { newAccount, newDatabaseFile, openTestStore } from "../helpers/store.ts";

const changes: readonly (readonly [what: string, sql: string, named: string])[] = [
  ["without one of its tables", "DROP TABLE sign_in_links", "table sign_in_links"],
  ["without one of its indexes", "DROP INDEX tasks_queued", "index tasks_queued"],
  ["with a column more", "ALTER TABLE workers ADD COLUMN more TEXT", "table workers"],
  [
    "with a trigger on its tables",
    "CREATE TRIGGER t AFTER INSERT ON tasks BEGIN DELETE FROM tasks; END",
    "trigger t",
  ],
];
for (const [what, sql, named] of changes) {
  test(`a file ${what} is refused`, async (t) => {
    const file = newDatabaseFile(t);
    await (await openTestStore(t, { file })).close();
    const other = new Database(file);
    other.exec(sql);
    other.close();

    for (const writer of ["thread", "inline"] as const) {
      await assert.rejects(openSqliteStore({ file, writer, backlogMax: 1 }), (error: Error) => {
        assert.ok(error.message.includes(`${file} is damaged (${named} is not as`), error.message);
        return /backup restore COPY/.test(error.message);
      });
    }
  });
}

test("a file in which another program keeps tables of its own is opened", async (t) => {
  const file = newDatabaseFile(t);
  await (await openTestStore(t, { file })).close();
  const other = new Database(file);
  other.exec("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); ANALYZE");
  other.close();
  const store = await openTestStore(t, { file });
  assert.equal(await store.createAccount(newAccount()), "created");
});

test("a restore that was broken off is found behind a link whose file is missing", (t) => {
  const file = newDatabaseFile(t);
  const folder = join(dirname(file), "elsewhere");
  mkdirSync(folder);
  const target = join(folder, "data.db");
  symlinkSync(join("elsewhere", "data.db"), file);
  refuseDamagedFile(file);
  assert.equal(placeOf(file), target);
  writeFileSync(restorePart(target), "");
  assert.throws(() => refuseDamagedFile(file), /a restore was broken off/);
});

test("links that lead in a circle are refused", (t) => {
  const file = newDatabaseFile(t);
  symlinkSync(file, file);
  assert.throws(() => refuseDamagedFile(file), /ELOOP: too many symbolic links/);
});

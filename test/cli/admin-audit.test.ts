import assert from "node:assert/strict";
import { userInfo } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { makeDatabase } from "../helpers/store.ts";
import { columns, documentOf } from "./in-process.ts";

test("the audit lists the commands of a user, newest first, without secrets", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));
  const admin = (words: string) => documentOf(t, ["admin", ...words.split(" ")], { cwd });
  const made = await admin("account create ada");
  const { key } = await admin("key create ada");
  await admin(`key revoke ${key.key_id}`);
  await admin("secret show ada");
  await admin("delivery pause --account ada --reason maintenance");

  const { entries } = await admin("audit");
  const page = await admin("audit --action key.revoked --limit 1 --since 1h");
  const ofAda = await admin("audit --account ada --limit 2");
  const ofOthers = await admin("audit --account adam");

  assert.deepEqual(columns(entries, "action", "subject"), [
    ["delivery.paused", "ada"],
    ["secret.shown", "ada"],
    ["key.revoked", key.key_id],
    ["key.created", "ada"],
    ["account.created", "ada"],
  ]);
  for (const { actor } of entries) {
    assert.deepEqual([actor.kind, actor.name], ["user", userInfo().username]);
  }
  assert.deepEqual(ofAda.entries, entries.slice(0, 2));
  assert.equal(typeof ofAda.next_cursor, "string");
  assert.deepEqual(ofOthers, { entries: [], next_cursor: null });
  assert.deepEqual(entries[0]?.details, { host: null, reason: "maintenance" });
  const text = JSON.stringify(entries);
  for (const secret of [made.key.key, key.key, made.webhook_secret]) {
    assert.ok(!text.includes(secret));
  }
  assert.deepEqual([page.entries.length, page.next_cursor], [1, null]);
});

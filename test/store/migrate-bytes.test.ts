import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  ANSWER_OVERHEAD_BYTES,
  ATTEMPT_OVERHEAD_BYTES,
  TASK_OVERHEAD_BYTES,
} from "../../src/store/common/byte-sizes.ts";
import { openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { migrate } from "../../src/store/sqlite/machine/migrate.ts";
import { newDatabaseFile, newStale, openTestStore, T0 } from "../helpers/store.ts";

const EIGHTH_SCHEMA = readFileSync(new URL("../fixtures/schema-v8.sql", import.meta.url), "utf8");

test("counts, in a file of the eighth version, the bytes of attempts and kept answers", async (t) => {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: EIGHTH_SCHEMA, version: 8, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    INSERT INTO tasks (id, account_seq, state, status_code, created_at, completed_at, erase_at, data_text)
    VALUES ('a', 1, 'completed', 20000, ${T0}, ${T0}, ${T0}, '{}');
    INSERT INTO task_counts VALUES (1, 'completed', 1), (1, 'bytes', ${TASK_OVERHEAD_BYTES + 2});
    INSERT INTO deliveries (task_seq, kind, url, host, state)
    VALUES (1, 'postback', 'https://a/', 'a', 'given_up');
    INSERT INTO attempts
      (account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at, error, response_excerpt)
    VALUES
      (1, 1, 'postback', 1, 0, 'a', 1, 1, 1, 'HTTP 500', 'ä'), (1, 1, 'postback', 2, 1, 'a', 1, 1, 1, NULL, NULL),
      (1, 1, 'postback', 3, 2, 'a', 1, 1, NULL, NULL, NULL);
    INSERT INTO idempotency_keys (account_seq, key, body_hash, answer_text, erase_at)
    VALUES (1, 'k', 'h', '{}', ${T0}), (2, 'k', 'h', '{"ä":1}', ${T0});`);
  connection.close();

  const store = await openTestStore(t, { file });

  const bytesOf = async (accountId: number) => (await store.countWork(accountId)).bytes;
  const answers = 2 * ANSWER_OVERHEAD_BYTES + 2 + 8;
  const attempts = 2 * ATTEMPT_OVERHEAD_BYTES + 8 + 2;
  assert.equal(
    (await bytesOf(1)) + (await bytesOf(2)),
    TASK_OVERHEAD_BYTES + 2 + attempts + answers,
  );
  await store.eraseExpired({ now: T0 + 1, max: 9 });
  await store.eraseStale(newStale({ answersBefore: T0 + 1 }));
  assert.deepEqual([await bytesOf(1), await bytesOf(2)], [0, 0]);
});

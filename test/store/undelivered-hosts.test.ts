import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { schemaSql } from "../../src/assets.ts";
import { hostTrafficReads } from "../../src/store/sqlite/host-traffic.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import { newDatabaseFile } from "../helpers/store.ts";

// The first of ada's, then many of bob's; each with a delivery that is given up.
const BOBS = 20_500;

/** A file in which far more is given up than may be read at once. */
function seedMany(t: TestContext): Connection {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  connection.exec(`
    ${schemaSql}
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= ${BOBS})
    INSERT INTO tasks (id, account_seq, state, status_code, created_at, data_text)
    SELECT 'task ' || i, iif(i = 1, 1, 2), 'completed', 20000, i, '{}' FROM n;
    INSERT INTO deliveries (task_seq, kind, url, host, state)
    SELECT seq, 'postback', 'https://' || account_seq, account_seq || '.example', 'given_up' FROM tasks;
    INSERT INTO task_counts (account_seq, state, count)
    VALUES (1, 'undelivered', 1), (2, 'undelivered', ${BOBS});`);
  return connection;
}

test("hosts are counted from the newest failures when there are too many, and that is told", (t) => {
  const connection = seedMany(t);
  const { listHostTraffic } = hostTrafficReads(connection);
  const read = (scope: number | null) => {
    const { hosts, hasMore } = listHostTraffic({ scope, since: 0, limit: 9 });
    return { hosts: hosts.map(({ host, givenUp }) => [host, givenUp]), hasMore };
  };

  assert.deepEqual(read(null), { hosts: [["2.example", 20_000]], hasMore: true });
  assert.deepEqual(read(2), { hosts: [["2.example", 10_000]], hasMore: true });
  // Who has few tasks is not hidden by who has many.
  assert.deepEqual(read(1), { hosts: [["1.example", 1]], hasMore: false });

  connection.exec(`
    UPDATE deliveries SET state = 'delivered' WHERE task_seq BETWEEN 2 AND ${BOBS - 9998};
    UPDATE task_counts SET count = 9999 WHERE account_seq = 2;`);
  assert.deepEqual(read(1), { hosts: [["1.example", 1]], hasMore: false });
  assert.deepEqual(read(2), { hosts: [["2.example", 9999]], hasMore: false });
  assert.equal(read(null).hasMore, false);
});

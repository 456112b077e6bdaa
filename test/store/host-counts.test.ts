import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { schemaSql } from "../../src/assets.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import { longReads } from "../../src/store/sqlite/reads.ts";
import { newDatabaseFile, pluck } from "../helpers/store.ts";

// More than one read may return.
const MANY = 20_500;

/** Deliveries of ada to one host and of bob to very many hosts have failed. */
function seedMany(t: TestContext): Connection {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  connection.exec(`
    ${schemaSql}
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    INSERT INTO host_counts (account_seq, host, given_up) VALUES (1, '1.example', ${MANY});
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY})
    INSERT INTO host_counts (account_seq, host, refused) SELECT 2, i || '.example', 1 FROM n;`);
  return connection;
}

test("all failures of a host are counted, and a list with too many hosts reports more", (t) => {
  const { listHostTraffic } = longReads(seedMany(t));
  const read = (scope: number | null) => {
    const { hosts, hasMore } = listHostTraffic({ scope, since: 0, limit: 1 });
    return { hosts: pluck(hosts, "host", "givenUp"), hasMore };
  };
  // An account with few hosts is not hidden by an account with many.
  assert.deepEqual(read(1), { hosts: [["1.example", MANY]], hasMore: false });
  assert.deepEqual(read(null), { hosts: [["1.example", MANY]], hasMore: true });
  assert.equal(read(2).hasMore, true);
});

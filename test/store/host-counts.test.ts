import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { schemaSql } from "../../src/assets.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import { longReads } from "../../src/store/sqlite/reads.ts";
import {
  claimAttempt,
  newAttemptRecord,
  newDatabaseFile,
  openTestStore,
  RETENTION_MS,
  seedAccount,
  seedDelivery,
  T0,
  pluck,
} from "../helpers/store.ts";

// More than may be read at once.
const MANY = 20_500;

/** A file in which the deliveries of ada to a host have failed, and those of bob to very many. */
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

test("every failure of a host is counted, however many there are; that there are too many hosts is told", (t) => {
  const { listHostTraffic } = longReads(seedMany(t));
  const read = (scope: number | null) => {
    const { hosts, hasMore } = listHostTraffic({ scope, since: 0, limit: 1 });
    return { hosts: pluck(hosts, "host", "givenUp"), hasMore };
  };

  // Who has few hosts is not hidden by who has many.
  assert.deepEqual(read(1), { hosts: [["1.example", MANY]], hasMore: false });
  assert.deepEqual(read(null), { hosts: [["1.example", MANY]], hasMore: true });
  assert.equal(read(2).hasMore, true);
});

test("a host of which nothing is left to tell has no row any more", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accountId = await seedAccount(store);
  const connection = openWriter(file);
  t.after(() => connection.close());
  const rows = () => connection.prepare("SELECT * FROM host_counts").raw().all();
  await seedDelivery(store, accountId);
  const first = await claimAttempt(store, "a.example");
  const later = { state: "scheduled", dueAt: T0 + 5000, retry: 1 } as const;
  await store.recordAttempt(newAttemptRecord(first, { decision: later }));
  assert.deepEqual(rows(), [[accountId, "a.example", 0, 0, 1]]);

  const second = await claimAttempt(store, "a.example", T0 + 5000);
  await store.recordAttempt(newAttemptRecord(second, { decision: { state: "given_up" } }));
  assert.deepEqual(rows(), [[accountId, "a.example", 1, 0, 0]]);
  while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 9 })).looked > 0) continue;
  assert.deepEqual(rows(), []);
});

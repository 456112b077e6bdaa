import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import pg from "pg";

import { HOUR_MS } from "../../../src/domain/clock/duration.ts";
import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import { newPost, newTask, seedAccount, T0 } from "../../helpers/store.ts";

async function open(
  t: TestContext,
): Promise<{ readonly store: Store; readonly client: pg.Client }> {
  const url = await newDatabaseUrl(t);
  const store = await openPostgresStore({
    server: parseServerAddress(url),
    kind: "node",
    node: { name: "test", url: null, version: "0" },
    notify: true,
    backlogMax: 10_000,
  });
  const client = new pg.Client(url);
  await client.connect();
  t.after(async () => {
    await client.end();
    await store.close();
  });
  return { store, client };
}

describe("counts of stripes", { skip: reasonToSkipPostgres() }, () => {
  test("a host with zero counts over all stripes loses its rows after an hour", async (t) => {
    const { store, client } = await open(t);
    const accountId = await seedAccount(store);
    await client.query(
      `INSERT INTO host_counts (account_seq, host, stripe, given_up, retrying)
       VALUES ($1, 'gone.example', 0, 1, 2), ($1, 'gone.example', 1, -1, 0), ($1, 'gone.example', 2, 0, -2),
         ($1, 'left.example', 0, 1, 0), ($1, 'left.example', 1, 0, -1)`,
      [accountId],
    );
    await store.insertTasks(newPost(accountId, [newTask()]));

    assert.equal(await store.foldTraffic({ minutesBefore: T0 + HOUR_MS }), "done");

    const { rows } = await client.query("SELECT host, stripe FROM host_counts ORDER BY stripe");
    assert.deepEqual(rows, [
      { host: "left.example", stripe: 0 },
      { host: "left.example", stripe: 1 },
    ]);
  });
});

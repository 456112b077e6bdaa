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

describe("what stripes have counted", { skip: reasonToSkipPostgres() }, () => {
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

  test("minutes of several stripes become one step, and their histograms one", async (t) => {
    const { store, client } = await open(t);
    const accountId = await seedAccount(store);
    await client.query(
      `INSERT INTO traffic (account_seq, step_ms, at, stripe, posted, queued, durations)
       VALUES ($1, 60000, $2, 40, 1, 7, '{1}'), ($1, 60000, $2, 41, 2, 5, '{0,1,2}'), ($1, 60000, $3, 41, 4, 0, '{}'),
         ($1, 3600000, $2, 42, 8, 9, '{3}')`,
      [accountId, T0, T0 + 60_000],
    );
    const read = async () => {
      const { steps, durations } = await store.findTraffic({
        scope: accountId,
        from: T0,
        to: T0 + HOUR_MS,
      });
      return {
        steps: steps.map(({ at, stepMs, posted, queued }) => [at - T0, stepMs, posted, queued]),
        durations: durations.map(({ at, bucket, count }) => [at - T0, bucket, count]),
      };
    };
    const minutes = [
      [0, 60_000, 3, 7],
      [60_000, 60_000, 4, 0],
    ];
    const before = await read();
    assert.deepEqual(before.steps, [[0, HOUR_MS, 8, 9], ...minutes]);
    assert.deepEqual(before.durations, [
      [0, 0, 3],
      ...[
        [0, 0, 1],
        [0, 1, 1],
        [0, 2, 2],
      ],
    ]);

    assert.equal(await store.foldTraffic({ minutesBefore: T0 + HOUR_MS }), "done");

    assert.deepEqual(await read(), {
      steps: [[0, HOUR_MS, 15, 9]],
      durations: [
        [0, 0, 4],
        [0, 1, 1],
        [0, 2, 2],
      ],
    });
  });
});

import assert from "node:assert/strict";
import { test } from "node:test";

import pg from "pg";

import type { PostgresServer } from "../../scripts/kit/postgres-server.ts";
import { until } from "../../scripts/kit/until.ts";
import { reasonToSkipStandby, startPostgres } from "../helpers/postgres.ts";

test(
  "a synchronous standby has what its primary has acknowledged, and takes over",
  { skip: reasonToSkipStandby() },
  async (t) => {
    const primary = await startPostgres(t);
    await query(primary, "CREATE TABLE kept (number int)");
    const standby = await startPostgres(t, { standbyOf: primary });
    await assert.rejects(query(standby, "INSERT INTO kept VALUES (0)"), { code: "25006" });
    primary.reload({ synchronous_standby_names: standby.name });
    await until(async () => (await syncStateOf(primary)) === "sync", {
      msMax: 30_000,
      fault: () => `no synchronous standby: ${primary.log}`,
    });

    await query(primary, "INSERT INTO kept VALUES (1)");
    await primary.kill();
    await standby.promote();
    await query(standby, "INSERT INTO kept VALUES (2)");

    const [found] = await query(standby, "SELECT array_agg(number) AS numbers FROM kept");
    assert.deepEqual(found, { numbers: [1, 2] });
  },
);

async function syncStateOf(primary: PostgresServer): Promise<unknown> {
  const [found] = await query(primary, "SELECT sync_state FROM pg_stat_replication");
  return found?.["sync_state"];
}

async function query(
  { url }: PostgresServer,
  sql: string,
): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client(url);
  try {
    await client.connect();
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import pg from "pg";

import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";

describe("the schema of a test", { skip: reasonToSkipPostgres() }, () => {
  test("is empty, and a table made in it is in no other", async (t) => {
    const [one, other] = [await newDatabaseUrl(t), await newDatabaseUrl(t)];

    await query(one, "CREATE TABLE tasks (seq bigint PRIMARY KEY)");
    await query(one, "INSERT INTO tasks VALUES (1)");

    assert.deepEqual(await tablesOf(one), ["tasks"]);
    assert.deepEqual(await tablesOf(other), []);
    await query(other, "CREATE TABLE tasks (seq bigint PRIMARY KEY)");
    assert.deepEqual(await query(other, "SELECT count(*)::int AS count FROM tasks"), [
      { count: 0 },
    ]);
  });

  test("is there until the test and all its hooks have ended, and dropped after it", async (t) => {
    let ofAnother = "";
    await t.test("another test", async (within) => {
      const url = await newDatabaseUrl(within);
      ofAnother = await schemaOf(url);
      const client = new pg.Client(url);
      await client.connect();
      within.after(async () => {
        await client.query("CREATE TABLE closed (at bigint)");
        await client.end();
      });
    });

    const [found] = await query(
      await newDatabaseUrl(t),
      `SELECT count(*)::int AS count FROM pg_namespace WHERE nspname = '${ofAnother}'`,
    );
    assert.deepEqual(found, { count: 0 });
  });
});

async function query(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

async function tablesOf(url: string): Promise<readonly unknown[]> {
  const sql = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()";
  return (await query(url, sql)).map(({ tablename }) => tablename);
}

async function schemaOf(url: string): Promise<string> {
  const [found] = await query(url, "SELECT current_schema() AS name");
  return String(found?.["name"]);
}

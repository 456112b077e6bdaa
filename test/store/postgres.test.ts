import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";

import pg from "pg";

import { parseServerAddress } from "../../src/store/postgres/machine/server-address.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres-store.ts";
import { exerciseStore, type OpenedStore, type StoreLimits } from "./conformance.ts";

const SERVER = process.env["POSTBACKD_TEST_POSTGRES"];

async function newDatabaseUrl(t: TestContext): Promise<string> {
  const schema = `t_${randomUUID().replaceAll("-", "")}`;
  const client = new pg.Client({ connectionString: SERVER });
  await client.connect();
  await client.query(`CREATE SCHEMA ${schema}`);
  t.after(async () => {
    await client.query(`DROP SCHEMA ${schema} CASCADE`);
    await client.end();
  });
  return `${SERVER}?options=-c%20search_path%3D${schema}`;
}

async function open(t: TestContext, limits: StoreLimits = {}): Promise<OpenedStore> {
  const url = await newDatabaseUrl(t);
  const again = async (more: StoreLimits = limits) => {
    const store = await openPostgresStore({
      server: parseServerAddress(url),
      role: "node",
      node: { name: "test", url: null, version: "0" },
      notify: true,
      backlogMax: more.backlogMax ?? 10_000,
      examineMax: more.examineMax,
    });
    t.after(() => store.close());
    return store;
  };
  return { store: await again(), again };
}

if (SERVER !== undefined) exerciseStore("postgres", open);

import type { TestContext } from "node:test";

import pg from "pg";

import { PostgresProxy } from "../../scripts/kit/postgres-proxy.ts";
import { until } from "../../scripts/kit/until.ts";
import { parseServerAddress } from "../../src/store/postgres/machine/server-address.ts";
import {
  openPostgresStore,
  type PostgresStoreOptions,
} from "../../src/store/postgres/postgres-store.ts";
import type { Store } from "../../src/store/store.ts";
import { afterwards } from "./afterwards.ts";
import { newDatabaseUrl } from "./postgres.ts";

/** A fifth of the usual time: a node that is cut off counts as dead after two seconds. */
export const QUICK_BEAT_MS = 400;

/** Opens a store on a database as a node, and closes it after the test. */
export async function openNode(
  t: TestContext,
  url: string,
  options: Partial<PostgresStoreOptions> = {},
): Promise<Store> {
  const store = await openPostgresStore({
    server: parseServerAddress(url),
    kind: "node",
    node: { name: "test", url: null, version: "0" },
    notify: true,
    backlogMax: 10_000,
    ...options,
  });
  afterwards(t, () => store.close());
  return store;
}

/** As {@link openNode}, with heartbeats by {@link QUICK_BEAT_MS}. */
export function openQuickNode(
  t: TestContext,
  url: string,
  options: Partial<PostgresStoreOptions> = {},
): Promise<Store> {
  return openNode(t, url, { beatMs: QUICK_BEAT_MS, ...options });
}

/** As {@link openNode}, with time-outs longer than any test, for tests that lock rows. */
export function openPatientNode(
  t: TestContext,
  url: string,
  options: Partial<PostgresStoreOptions> = {},
): Promise<Store> {
  return openNode(t, url, { ...PATIENT, ...options });
}

/** Opens a new database as two nodes. */
export async function openPair(t: TestContext, options: Partial<PostgresStoreOptions> = {}) {
  const url = await newDatabaseUrl(t);
  const first = await openNode(t, url, options);
  return { url, first, second: await openNode(t, url, options) };
}

/** The {@link openPatientNode} options. */
export const PATIENT = { beatMs: 60_000, lockMs: 60_000 } as const;

/** Resolves when another session waits for a lock of this one. */
export async function whenBlocking(session: pg.Client): Promise<void> {
  const waits =
    "SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))";
  const isWaited = async () => ((await session.query(waits)).rowCount ?? 0) > 0;
  await eventually("another session waits", isWaited, 30_000);
}

/** Starts a proxy before the server of a database, closed after the test. */
export async function startProxy(t: TestContext, url: string): Promise<PostgresProxy> {
  const proxy = await PostgresProxy.open(Number(new URL(url).port));
  afterwards(t, () => proxy[Symbol.asyncDispose]());
  return proxy;
}

/** Resolves when the condition is met. */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  msMax = 10_000,
): Promise<void> {
  await until(isSo, { msMax, everyMs: 5, fault: () => `not within ${msMax} ms: ${what}` });
}

/** A session of the test's own on a database. */
export async function openSession(t: TestContext, url: string, name = "test"): Promise<pg.Client> {
  const session = new pg.Client({ connectionString: url, application_name: name });
  // The server may end before it.
  session.on("error", () => {});
  await session.connect();
  afterwards(t, () => session.end());
  return session;
}

/** Rows of a database, by a connection of the test. */
export async function askDatabase<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
): Promise<readonly Row[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

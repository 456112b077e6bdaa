import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, type TestContext } from "node:test";

import pg from "pg";

import { findTestPostgres, HOW_TO_GET_POSTGRES } from "../../scripts/kit/postgres-binaries.ts";
import { PostgresServer, type PostgresOptions } from "../../scripts/kit/postgres-server.ts";
import { afterwards } from "./afterwards.ts";

/** The server of a run of all tests: `scripts/check.ts` starts it. */
const SHARED_URL = process.env["POSTBACKD_TEST_POSTGRES"];

// What a test that has ended has left open must not hold the others up for long.
const DROP_MS_MAX = 10_000;

/**
 * Why tests on PostgreSQL cannot run here, or false: `{ skip: reasonToSkipPostgres() }`. Throws where the environment
 * promises a server with POSTBACKD_TEST_PEERS=required.
 */
export function reasonToSkipPostgres(): string | false {
  if (SHARED_URL !== undefined || findTestPostgres() !== null) return false;
  assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", HOW_TO_GET_POSTGRES);
  return HOW_TO_GET_POSTGRES;
}

/** Why no standby can be made here, or false: that of npm cannot copy a server. */
export function reasonToSkipStandby(): string | false {
  const reason = reasonToSkipPostgres();
  if (reason !== false) return reason;
  const folder = findTestPostgres()?.folder ?? "";
  if (existsSync(join(folder, "pg_basebackup"))) return false;
  return "this PostgreSQL comes without pg_basebackup";
}

/**
 * The URL of an empty schema, which is dropped some time after the test. It lies on the server of the whole run; in a
 * file that is run alone, on one of its own, which ends with this process.
 */
export async function newDatabaseUrl(t: TestContext): Promise<string> {
  await dropEnded();
  const { url, admin } = await server();
  const schema = `t_${randomBytes(6).toString("hex")}`;
  await admin.query(`CREATE SCHEMA ${schema}`);
  t.after(() => ended.push(schema));
  const withSchema = new URL(url);
  withSchema.searchParams.set("options", `-csearch_path=${schema}`);
  return withSchema.href;
}

/**
 * A server of the test's own, to be killed and started again, or with other settings. Stopped after the test, and after
 * all later {@link afterwards}.
 */
export async function startPostgres(
  t: TestContext,
  options: PostgresOptions = {},
): Promise<PostgresServer> {
  const server = await PostgresServer.start(options);
  afterwards(t, () => server.stop());
  return server;
}

interface Server {
  readonly url: string;
  /** One connection, which does not keep this process from ending. */
  readonly admin: pg.Pool;
}

let started: Promise<Server> | null = null;

function server(): Promise<Server> {
  started ??= start();
  return started;
}

async function start(): Promise<Server> {
  const url = SHARED_URL ?? (await PostgresServer.start()).url;
  const options = `-clock_timeout=${DROP_MS_MAX} -cclient_min_messages=warning`;
  const admin = new pg.Pool({ connectionString: url, max: 1, allowExitOnIdle: true, options });
  return { url, admin };
}

/**
 * Schemas of tests that have ended. They are not dropped in a hook of their test: hooks run in the order of their
 * making, and what the test has opened on its schema is not closed by then.
 */
const ended: string[] = [];

async function dropEnded(): Promise<void> {
  if (ended.length === 0) return;
  const { admin } = await server();
  for (const schema of ended.splice(0)) await admin.query(`DROP SCHEMA ${schema} CASCADE`);
}

after(dropEnded);

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, type TestContext } from "node:test";

import pg from "pg";

import { findTestPostgres, HOW_TO_GET_POSTGRES } from "../../scripts/kit/postgres-binaries.ts";
import { PostgresServer, type PostgresOptions } from "../../scripts/kit/postgres-server.ts";
import { afterwards } from "./afterwards.ts";

/** The PostgreSQL of a run of all tests, started by `scripts/check.ts`. */
const SHARED_URL = process.env["POSTBACKD_TEST_POSTGRES"];

// Objects that an ended test left open must not block others for long.
const DROP_MS_MAX = 10_000;

/** The reason to skip tests on PostgreSQL, or false. Throws if POSTBACKD_TEST_PEERS=required. */
export function reasonToSkipPostgres(): string | false {
  if (SHARED_URL !== undefined || findTestPostgres() !== null) return false;
  assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", HOW_TO_GET_POSTGRES);
  return HOW_TO_GET_POSTGRES;
}

/** The reason to skip tests of standbys, or false. PostgreSQL from npm has no pg_basebackup. */
export function reasonToSkipStandby(): string | false {
  const reason = reasonToSkipPostgres();
  if (reason !== false) return reason;
  const folder = findTestPostgres()?.folder ?? "";
  if (existsSync(join(folder, "pg_basebackup"))) return false;
  return "this PostgreSQL comes without pg_basebackup";
}

/** The URL of an empty schema, which is dropped some time after the test. */
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

/** Starts a separate PostgreSQL. It is stopped after the test and after all later {@link afterwards}. */
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
  /** One connection, which does not keep the process alive. */
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

/** Schemas of ended tests. A hook of the test would run before its connections are closed. */
const ended: string[] = [];

async function dropEnded(): Promise<void> {
  if (ended.length === 0) return;
  const { admin } = await server();
  for (const schema of ended.splice(0)) await admin.query(`DROP SCHEMA ${schema} CASCADE`);
}

after(dropEnded);

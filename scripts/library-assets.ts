import { join } from "node:path";

import type { BuildFacts, DashboardFile, ThreadOptions } from "../src/assets.ts";

/**
 * What `createDaemon` has in the place of `src/assets.ts`: the texts put in by the build, the threads and the command
 * host as modules beside it.
 */

declare const POSTBACKD_SCHEMA_SQL: string;
declare const POSTBACKD_POSTGRES_SCHEMA_SQL: string;
declare const POSTBACKD_VERSION: string;
declare const POSTBACKD_BUILD: BuildFacts;

export const schemaSql: string = POSTBACKD_SCHEMA_SQL;

export const postgresSchemaSql: string = POSTBACKD_POSTGRES_SCHEMA_SQL;

export const version: string = POSTBACKD_VERSION;

export const buildFacts: BuildFacts = POSTBACKD_BUILD;

export const writerThreadEntry: string | URL = join(__dirname, "writer-thread.cjs");
export const readerThreadEntry: string | URL = join(__dirname, "reader-thread.cjs");
export const backupThreadEntry: string | URL = join(__dirname, "backup-thread.cjs");
export const parserThreadEntry: string | URL = join(__dirname, "parser-thread.cjs");

export const commandHost: readonly [string, ...string[]] = [
  process.execPath,
  join(__dirname, "command-host-main.cjs"),
];

/** A daemon in somebody's program serves no dashboard. */
export function dashboardFiles(): readonly DashboardFile[] {
  return [];
}

// What the program was started with is for the program: `--input-type=module` ends a thread at its first line, and a
// hook of `--import` would run in each of them.
export const threadOptions: ThreadOptions = { execArgv: [], env: {} };

/** SQLite's addon is a file of the package, where better-sqlite3 looks for it: `prebuilds` beside the modules' folder. */
export function prepareNativeAddon(_dataFolder: string): void {}

import { fileURLToPath } from "node:url";

import type { BuildFacts, DashboardFile, ThreadOptions } from "../src/assets.ts";

/**
 * What the package's daemon has in the place of `src/assets.ts`: the texts put in by the build, the threads and the
 * command host as modules beside it.
 */

declare const POSTBACKD_SCHEMA_SQL: string;
declare const POSTBACKD_POSTGRES_SCHEMA_SQL: string;
declare const POSTBACKD_VERSION: string;
declare const POSTBACKD_BUILD: BuildFacts;

export const schemaSql: string = POSTBACKD_SCHEMA_SQL;

export const postgresSchemaSql: string = POSTBACKD_POSTGRES_SCHEMA_SQL;

export const version: string = POSTBACKD_VERSION;

export const buildFacts: BuildFacts = POSTBACKD_BUILD;

export const writerThreadEntry: string | URL = new URL("./writer-thread.js", import.meta.url);
export const readerThreadEntry: string | URL = new URL("./reader-thread.js", import.meta.url);
export const backupThreadEntry: string | URL = new URL("./backup-thread.js", import.meta.url);
export const parserThreadEntry: string | URL = new URL("./parser-thread.js", import.meta.url);

export const commandHost: readonly [string, ...string[]] = [
  process.execPath,
  fileURLToPath(new URL("./command-host-main.js", import.meta.url)),
];

/** A daemon in somebody's program serves no dashboard. */
export function dashboardFiles(): readonly DashboardFile[] {
  return [];
}

// What the program was started with is for the program: `--input-type=module` ends a thread at its first line, and a
// hook of `--import` would run in each of them.
export const threadOptions: ThreadOptions = { execArgv: [], env: {} };

/** SQLite's addon is a file of node_modules, as any other package's. */
export function prepareNativeAddon(_dataFolder: string): void {}

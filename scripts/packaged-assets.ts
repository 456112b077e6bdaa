import type { BuildFacts, ThreadOptions } from "../src/assets.ts";
import { COMMAND_HOST, type ProgramStart } from "./program-assets.ts";

/**
 * What the executable has in the place of `src/assets.ts`: the same names, the values put in by the
 * build (`scripts/bundle.ts`).
 */

export { dashboardFiles } from "./packed-dashboard.ts";

declare const POSTBACKD_SCHEMA_SQL: string;
declare const POSTBACKD_POSTGRES_SCHEMA_SQL: string;
declare const POSTBACKD_SERVICE_UNIT: string;
declare const POSTBACKD_VERSION: string;
declare const POSTBACKD_BUILD: BuildFacts;

export const schemaSql: string = POSTBACKD_SCHEMA_SQL;

export const postgresSchemaSql: string = POSTBACKD_POSTGRES_SCHEMA_SQL;

export const serviceUnit: string = POSTBACKD_SERVICE_UNIT;

export const executable: string | null = process.execPath;

export const version: string = POSTBACKD_VERSION;

export const buildFacts: BuildFacts = POSTBACKD_BUILD;

declare const start: ProgramStart;

// One text for all: it looks which of them it is in.
export const writerThreadEntry: string | URL = start.threadSource;
export const readerThreadEntry: string | URL = start.threadSource;
export const backupThreadEntry: string | URL = start.threadSource;
export const parserThreadEntry: string | URL = start.threadSource;

// And the process that runs commands, too.
export const commandHost: readonly [string, ...string[]] = [process.execPath, COMMAND_HOST];

export const threadOptions: ThreadOptions = { eval: true };

export { prepareNativeAddon } from "./packaged-addon.ts";

/**
 * What the command of npm's package has in the place of `src/assets.ts`: the same threads as `createDaemon`, and the
 * dashboard beside them.
 */

export {
  backupThreadEntry,
  buildFacts,
  commandHost,
  parserThreadEntry,
  postgresSchemaSql,
  prepareNativeAddon,
  readerThreadEntry,
  schemaSql,
  threadOptions,
  version,
  writerThreadEntry,
} from "./library-assets.ts";
export { dashboardFiles } from "./packed-dashboard.ts";

declare const POSTBACKD_SERVICE_UNIT: string;

export const serviceUnit: string = POSTBACKD_SERVICE_UNIT;

/** A service needs one file that no user can change: a folder of node_modules is none. */
export const executable: string | null = null;

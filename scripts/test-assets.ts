import { fileURLToPath } from "node:url";

import type { ThreadOptions } from "../src/assets.ts";

/**
 * What tests have in the place of `src/assets.ts`: the files stay on disk, but the threads and the command host are the
 * bundles that `scripts/test-program.ts` makes, once for all tests.
 */

export {
  buildFacts,
  dashboardFiles,
  executable,
  postgresSchemaSql,
  prepareNativeAddon,
  schemaSql,
  serviceUnit,
  version,
} from "../src/assets.ts";

const BUNDLES = new URL("../node_modules/.cache/program/", import.meta.url);

export const writerThreadEntry: string | URL = new URL("writer-thread.cjs", BUNDLES);
export const readerThreadEntry: string | URL = new URL("reader-thread.cjs", BUNDLES);
export const backupThreadEntry: string | URL = new URL("backup-thread.cjs", BUNDLES);
export const parserThreadEntry: string | URL = new URL("parser-thread.cjs", BUNDLES);

/** Without the hooks of the test runner, which a bundle does not need. */
export const threadOptions: ThreadOptions = { execArgv: [] };

export const commandHost: readonly [string, ...string[]] = [
  process.execPath,
  fileURLToPath(new URL("command-host-main.cjs", BUNDLES)),
];

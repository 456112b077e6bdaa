import { fileURLToPath } from "node:url";

import type { ThreadEntries, ThreadOptions } from "../src/assets.ts";

/**
 * Replaces `src/assets.ts` in tests: the files stay on disk, but the threads and the command host are the bundles of
 * `scripts/test-program.ts`, built once for all tests.
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

export const threadEntries: ThreadEntries = {
  writer: new URL("writer-thread.cjs", BUNDLES),
  reader: new URL("reader-thread.cjs", BUNDLES),
  backup: new URL("backup-thread.cjs", BUNDLES),
  parser: new URL("parser-thread.cjs", BUNDLES),
};

/** Without the hooks of the test runner, which a bundle does not need. */
export const threadOptions: ThreadOptions = { execArgv: [] };

export const commandHost: readonly [string, ...string[]] = [
  process.execPath,
  fileURLToPath(new URL("command-host-main.cjs", BUNDLES)),
];

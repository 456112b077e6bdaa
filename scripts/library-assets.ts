import { join } from "node:path";

import type { ThreadEntries, ThreadOptions } from "../src/assets.ts";

/** Replaces `src/assets.ts` in npm's package: the threads and the command host are modules next to it. */

export * from "./bundled-assets.ts";

export const threadEntries: ThreadEntries = {
  writer: join(__dirname, "writer-thread.cjs"),
  reader: join(__dirname, "reader-thread.cjs"),
  backup: join(__dirname, "backup-thread.cjs"),
  parser: join(__dirname, "parser-thread.cjs"),
};

export const commandHost: readonly [string, ...string[]] = [
  process.execPath,
  join(__dirname, "command-host-main.cjs"),
];

/** A service needs one file that users cannot change; a folder of node_modules is not such a file. */
export const executable: string | null = null;

// Node options of the program are only for the program: `--input-type=module` ends a thread at its first line, and a
// hook of `--import` would run in each thread.
export const threadOptions: ThreadOptions = { execArgv: [], env: {} };

/** SQLite's addon is a file of the package, where better-sqlite3 looks for it: `prebuilds` beside the modules' folder. */
export function prepareNativeAddon(_dataFolder: string): void {}

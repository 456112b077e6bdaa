import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * What the program carries with it: read from disk in development. The build puts
 * `scripts/packaged-assets.ts` in the place of this file: a bundle has no files beside it.
 */

/** The text of `schema.sql`: what a new database file is made with. */
export const schemaSql: string = readFileSync(new URL("../schema.sql", import.meta.url), "utf8");

/** The version in `package.json`. */
export const version: string = packageVersion();

/** What `new Worker(…)` starts the writer thread with. */
export const writerThreadEntry: string | URL = new URL(
  "./store/sqlite/writer-thread.ts",
  import.meta.url,
);

/** What `new Worker(…)` starts the reader thread with. */
export const readerThreadEntry: string | URL = new URL(
  "./store/sqlite/reader-thread.ts",
  import.meta.url,
);

/** What of Node's worker options is not the same everywhere. */
export interface ThreadOptions {
  readonly execArgv?: string[];
  readonly env?: NodeJS.Dict<string>;
}

/** How both threads are started: here they read the sources as the main thread does, by its own options. */
export const threadOptions: ThreadOptions = {};

/** What starts the process that runs commands: bare Node, because a loader would make it larger. */
export const commandHost: readonly [string, ...string[]] = [
  process.execPath,
  fileURLToPath(new URL("./runners/command-host-main.ts", import.meta.url)),
];

/**
 * Makes SQLite's addon loadable in this thread. To be called in every thread that opens a database,
 * before the first one, with the folder of the database file. The executable unpacks its addon into
 * that folder; here the addon is a file of node_modules and there is nothing to do.
 */
export function prepareNativeAddon(_dataFolder: string): void {}

function packageVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  const manifest: unknown = JSON.parse(text);
  if (typeof manifest === "object" && manifest !== null && "version" in manifest) {
    if (typeof manifest.version === "string") return manifest.version;
  }
  throw new Error("package.json names no version");
}

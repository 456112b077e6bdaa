import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The files that the program carries with it: read from disk in development. The build puts
 * `scripts/packaged-assets.ts` in the place of this file, because a bundle has no files beside it.
 */

/** The text of `schema.sql`: what a new database file is made with. */
export const schemaSql: string = readFileSync(new URL("../schema.sql", import.meta.url), "utf8");

/** The text of `schema-postgres.sql`: what an empty database on a server is made with. */
export const postgresSchemaSql: string = readFileSync(
  new URL("../schema-postgres.sql", import.meta.url),
  "utf8",
);

/** The text of `deploy/postbackd.service`: the systemd unit that the program installs. */
export const serviceUnit: string = readFileSync(
  new URL("../deploy/postbackd.service", import.meta.url),
  "utf8",
);

/** The place of the executable that this is; null for the sources. */
export const executable: string | null = null;

/** A file of the dashboard. */
export interface DashboardFile {
  /** Where it is served: `/dashboard/` is the page itself. */
  readonly path: string;
  /** Its Content-Type. */
  readonly type: string;
  readonly body: Uint8Array;
  /** The same, compressed; null where that saves nothing. */
  readonly gzip: Uint8Array | null;
  readonly brotli: Uint8Array | null;
  /** Its name changes with its content. */
  readonly isImmutable: boolean;
}

/** The dashboard as `npm run build:dashboard` made it; none where it has not. Read anew when it was built again. */
export function dashboardFiles(): readonly DashboardFile[] {
  return readDashboard(fileURLToPath(new URL("../dist/dashboard/", import.meta.url)));
}

/** The version in `package.json`. */
export const version: string = packageVersion();

/** Facts of the build, which the sources do not know: null here. */
export interface BuildFacts {
  /** The commit of the sources; null where they were in no repository. */
  readonly commit: string | null;
  /** The version of SQLite in the addon. */
  readonly sqlite: string | null;
}

export const buildFacts: BuildFacts = { commit: null, sqlite: null };

/** The entry with which `new Worker(…)` starts the writer thread. */
export const writerThreadEntry: string | URL = new URL(
  "./store/sqlite/writer-thread.ts",
  import.meta.url,
);

/** The entry with which `new Worker(…)` starts the reader thread. */
export const readerThreadEntry: string | URL = new URL(
  "./store/sqlite/reader-thread.ts",
  import.meta.url,
);

/** The entry with which `new Worker(…)` starts the thread that makes a backup. */
export const backupThreadEntry: string | URL = new URL(
  "./store/sqlite/backup-thread.ts",
  import.meta.url,
);

/** The entry with which `new Worker(…)` starts the parser's thread. */
export const parserThreadEntry: string | URL = new URL(
  "./parser/parser-thread.ts",
  import.meta.url,
);

/** The options of Node's workers that are not the same everywhere. */
export interface ThreadOptions {
  /** True where an entry is the text of a program instead of its file. */
  readonly eval?: boolean;
  readonly execArgv?: string[];
  readonly env?: NodeJS.Dict<string>;
}

/** How all threads are started: here they read the sources as the main thread does, by its own options. */
export const threadOptions: ThreadOptions = {};

/** The command line of the process that runs commands: bare Node, because a loader would make it larger. */
export const commandHost: readonly [string, ...string[]] = [
  process.execPath,
  fileURLToPath(new URL("./run/command-host-main.ts", import.meta.url)),
];

/**
 * Makes SQLite's addon loadable in this thread. To be called in every thread that opens a database,
 * before the first one, with the folder of the database file. The executable unpacks its addon into
 * that folder; here the addon is a file of node_modules and there is nothing to do.
 */
export function prepareNativeAddon(_dataFolder: string): void {}

let readFiles: { readonly list: string; readonly files: readonly DashboardFile[] } | null = null;

function readDashboard(folder: string): readonly DashboardFile[] {
  const listFile = join(folder, "files.json");
  if (!existsSync(listFile)) return [];
  const list = readFileSync(listFile, "utf8");
  // The names in it change with what the files hold.
  if (readFiles?.list !== list) readFiles = { list, files: readListed(folder, list) };
  return readFiles.files;
}

function readListed(folder: string, list: string): readonly DashboardFile[] {
  const read = (name: string | null) => (name === null ? null : readFileSync(join(folder, name)));
  // Our own script wrote it, just now or not long ago.
  return (JSON.parse(list) as ListedFile[]).map(({ path, type, isImmutable, ...names }) => ({
    path,
    type,
    isImmutable,
    body: readFileSync(join(folder, names.file)),
    gzip: read(names.gzip),
    brotli: read(names.brotli),
  }));
}

/** A row of `dist/dashboard/files.json`; names are relative to its folder. */
interface ListedFile {
  readonly path: string;
  readonly type: string;
  readonly file: string;
  readonly gzip: string | null;
  readonly brotli: string | null;
  readonly isImmutable: boolean;
}

function packageVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  const manifest: unknown = JSON.parse(text);
  if (typeof manifest === "object" && manifest !== null && "version" in manifest) {
    if (typeof manifest.version === "string") return manifest.version;
  }
  throw new Error("package.json names no version");
}

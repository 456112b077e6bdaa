import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * The files that the program carries with it: read from disk in development. The build puts
 * `scripts/packaged-assets.ts` in the place of this file, because a bundle has no files next to it.
 */

/** The text of `schema.sql`: what a new database file is made with. */
export const schemaSql: string = textOf("../schema.sql");

/** The text of `schema-postgres.sql`: what an empty database on a server is made with. */
export const postgresSchemaSql: string = textOf("../schema-postgres.sql");

/** The text of `deploy/postbackd.service`: the systemd unit that the program installs. */
export const serviceUnit: string = textOf("../deploy/postbackd.service");

/** The place of the executable that this is; null for the sources. */
export const executable: string | null = null;

/** A file of the dashboard. */
export interface DashboardFile {
  /** The path at which it is served: `/dashboard/` is the page itself. */
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

/** A file of the dashboard with its bytes in Base64, as `scripts/dashboard-bundle.ts` writes it. */
export type PackedFile = Pick<DashboardFile, "path" | "type" | "isImmutable"> &
  Readonly<Record<"body" | "gzip" | "brotli", string>>;

/** The dashboard as `npm run build:dashboard` made it; empty before. Read again after each build. */
export function dashboardFiles(): readonly DashboardFile[] {
  const file = new URL("../dist/dashboard.json", import.meta.url);
  const builtAt = statSync(file, { throwIfNoEntry: false })?.mtimeMs;
  if (builtAt === undefined) return [];
  if (dashboard?.builtAt !== builtAt) {
    // Our own script wrote it.
    const packed = JSON.parse(readFileSync(file, "utf8")) as readonly PackedFile[];
    dashboard = { builtAt, files: packed.map(unpackFile) };
  }
  return dashboard.files;
}

let dashboard: { readonly builtAt: number; readonly files: readonly DashboardFile[] } | null = null;

function unpackFile({ body, gzip, brotli, ...file }: PackedFile): DashboardFile {
  return {
    ...file,
    body: Buffer.from(body, "base64"),
    gzip: Buffer.from(gzip, "base64"),
    brotli: Buffer.from(brotli, "base64"),
  };
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

/** The entries with which `new Worker(…)` starts the threads. */
export const threadEntries: ThreadEntries = {
  writer: new URL("./store/sqlite/writer-thread.ts", import.meta.url),
  reader: new URL("./store/sqlite/reader-thread.ts", import.meta.url),
  backup: new URL("./store/sqlite/backup-thread.ts", import.meta.url),
  parser: new URL("./parser/parser-thread.ts", import.meta.url),
};

export type ThreadEntries = Readonly<
  Record<"writer" | "reader" | "backup" | "parser", string | URL>
>;

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

function textOf(path: string): string {
  return readFileSync(new URL(path, import.meta.url), "utf8");
}

function packageVersion(): string {
  const manifest: unknown = JSON.parse(textOf("../package.json"));
  if (typeof manifest === "object" && manifest !== null && "version" in manifest) {
    if (typeof manifest.version === "string") return manifest.version;
  }
  throw new Error("package.json names no version");
}

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { build, type BuildOptions, type Plugin } from "esbuild";

import { dashboardFiles, type BuildFacts } from "../src/assets.ts";
import { sqliteVersion } from "../src/store/sqlite/machine/connection.ts";
import { type Platform, ROOT, version } from "./manifest.ts";
import { MAIN_PROGRAM, type ProgramAssets } from "./program-assets.ts";
import { withoutUnusedCode } from "./unused-code.ts";

// `require` evaluates only what it names. What is recorded is compiled when the executable is made.
const MAIN_ENTRY = `
  if (start.isRecorded) {
    require("./cli/start.ts");
    require("./cli/serve.ts");
    require("./daemon/compose.ts");
    require("./store/sqlite/writes.ts");
  } else require("./main.ts");
`;

// A text of its own, a seventh of the other: each thread keeps its text and all that was compiled of it in its memory.
const HELPER_ENTRY = `
  import { isMainThread, workerData } from "node:worker_threads";
  if (start.isRecorded) {
    require("./store/sqlite/writes.ts");
  } else if (isMainThread) require("./run/command-host-main.ts");
  else if (workerData.role === "writer") require("./store/sqlite/writer-thread.ts");
  else if (workerData.role === "reader") require("./store/sqlite/reader-thread.ts");
  else if (workerData.role === "backup") require("./store/sqlite/backup-thread.ts");
  else if (workerData.role === "parser") require("./parser/parser-thread.ts");
  else throw new Error("no thread has the role " + workerData.role);
`;

/**
 * Bundles a program for a platform into one CommonJS file. Rejects on warnings too: what esbuild warns of (`import.meta`
 * in CommonJS, a package it cannot find) fails only later, in the executable.
 */
export async function bundle(
  program: ProgramAssets,
  to: { readonly folder: string; readonly platform: Platform },
): Promise<void> {
  const isMain = program === MAIN_PROGRAM;
  await buildSound({
    ...COMMON,
    stdin: {
      contents: isMain ? MAIN_ENTRY : HELPER_ENTRY,
      resolveDir: join(ROOT, "src"),
      sourcefile: "entry.js",
    },
    outfile: join(to.folder, program.source),
    // An entry of its own for each platform names the addon instead of looking for it.
    alias: { "better-sqlite3": `better-sqlite3/${to.platform}` },
    define: { ...assetTexts(), POSTBACKD_DASHBOARD: isMain ? packedDashboard() : "[]" },
    plugins: [
      assetsFrom("packaged-assets.ts"),
      addonFrom("packaged-addon.ts"),
      ...(isMain ? [withoutUnusedCode()] : []),
    ],
  });
}

/** Bundles the text that the executable and each of its threads begin with. */
export async function bundleLoader(outFile: string): Promise<void> {
  await buildSound({
    ...COMMON,
    entryPoints: [join(ROOT, "scripts", "program-loader.ts")],
    outfile: outFile,
  });
}

const COMMON: BuildOptions = { bundle: true, platform: "node", target: "node24", format: "cjs" };

/** Has an addon loaded by a file of `scripts`. */
function addonFrom(file: string): Plugin {
  const contents = `module.exports = require("./${file}").loadAddon();`;
  return {
    name: "addon",
    setup(setup) {
      setup.onResolve({ filter: /\.node$/ }, ({ path }) => ({ path, namespace: "addon" }));
      setup.onLoad({ filter: /.*/, namespace: "addon" }, () => {
        return { contents, resolveDir: join(ROOT, "scripts") };
      });
    },
  };
}

/** Runs esbuild. Rejects on warnings too. */
export async function buildSound(options: BuildOptions): Promise<void> {
  const { warnings } = await build({ ...options, logLevel: "warning" });
  if (warnings.length > 0) throw new Error(`esbuild warned ${warnings.length} times, see above`);
}

/** The texts that stand in for files of the sources, by the names that esbuild puts them in for. */
export function assetTexts(): Record<string, string> {
  const schemaSql = readFileSync(join(ROOT, "schema.sql"), "utf8");
  const postgresSchemaSql = readFileSync(join(ROOT, "schema-postgres.sql"), "utf8");
  return {
    POSTBACKD_SCHEMA_SQL: JSON.stringify(schemaSql),
    POSTBACKD_POSTGRES_SCHEMA_SQL: JSON.stringify(postgresSchemaSql),
    POSTBACKD_SERVICE_UNIT: JSON.stringify(
      readFileSync(join(ROOT, "deploy", "postbackd.service"), "utf8"),
    ),
    POSTBACKD_VERSION: JSON.stringify(version),
    POSTBACKD_BUILD: JSON.stringify(buildFacts()),
  };
}

function buildFacts(): BuildFacts {
  // Sources out of an archive are in no repository, and some machines that build have no git.
  const git = spawnSync("git", ["rev-parse", "HEAD"], { cwd: ROOT, encoding: "utf8" });
  const commit = git.status === 0 ? git.stdout.trim() : null;
  return { commit, sqlite: sqliteVersion() };
}

/** The dashboard as JSON, its bytes in Base64: what `bundled-assets.ts` unpacks. It must have been built before. */
export function packedDashboard(): string {
  const files = dashboardFiles();
  if (files.length === 0) throw new Error("the dashboard is not built: npm run build:dashboard");
  const base64 = (bytes: Uint8Array | null) => bytes && Buffer.from(bytes).toString("base64");
  const packed = files.map((file) => ({
    ...file,
    body: base64(file.body),
    gzip: base64(file.gzip),
    brotli: base64(file.brotli),
  }));
  return JSON.stringify(packed);
}

/** Puts a file of `scripts` in the place of `src/assets.ts`. */
export function assetsFrom(file: string): Plugin {
  const assets = join(ROOT, "src", "assets.ts");
  const packaged = join(ROOT, "scripts", file);
  return {
    name: "assets",
    setup(setup) {
      const filter = /^\.{1,2}\/(?:.*\/)?assets\.ts$/;
      setup.onResolve({ filter }, ({ path, resolveDir, importer }) => {
        // What stands in for them may take some of them itself.
        const isReplaced = join(resolveDir, path) === assets && importer !== packaged;
        return isReplaced ? { path: packaged } : undefined;
      });
    },
  };
}

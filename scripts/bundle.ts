import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { pathToFileURL } from "node:url";

import { build, type BuildOptions, type BuildResult, type Plugin } from "esbuild";

import type { BuildFacts } from "../src/assets.ts";
import { sqliteVersion } from "../src/store/sqlite/machine/connection.ts";
import { type Platform, ROOT, version } from "./manifest.ts";
import { MAIN_PROGRAM, type ProgramAssets } from "./program-assets.ts";

// `require` evaluates only what it names. Recorded functions are compiled when the executable is made.
const MAIN_ENTRY = `
  if (start.isRecorded) {
    require("./cli/start.ts");
    require("./cli/serve.ts");
    require("./daemon/compose.ts");
    require("./store/sqlite/writes.ts");
  } else require("./main.ts");
`;

/** The entries of the threads and of the command host, by the names of their bundles. */
export const HELPERS: Readonly<Record<string, string>> = {
  "writer-thread": "store/sqlite/writer-thread.ts",
  "reader-thread": "store/sqlite/reader-thread.ts",
  "backup-thread": "store/sqlite/backup-thread.ts",
  "parser-thread": "parser/parser-thread.ts",
  "command-host-main": "run/command-host-main.ts",
};

// A text of its own, a seventh of the other: each thread keeps its text and all that was compiled of it in its memory.
const HELPER_ENTRY = `
  import { isMainThread, workerData } from "node:worker_threads";
  const helper = isMainThread ? "command-host-main" : workerData.role + "-thread";
  if (start.isRecorded) require("./store/sqlite/writes.ts");
  ${Object.entries(HELPERS)
    .map(([name, file]) => `else if (helper === "${name}") require("./${file}");`)
    .join("\n  ")}
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
    plugins: [assetsFrom("packaged-assets.ts"), ADDON, ...(isMain ? [withoutUnusedCode()] : [])],
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

/** The executable takes SQLite's addon out of itself. */
const ADDON: Plugin = {
  name: "addon",
  setup(setup) {
    setup.onResolve({ filter: /\.node$/ }, ({ path }) => ({ path, namespace: "addon" }));
    setup.onLoad({ filter: /.*/, namespace: "addon" }, () => {
      // A file of its own: esbuild keeps all of a file that is required, and all of its imports.
      const contents = `module.exports = require("./packaged-addon.ts").loadAddon();`;
      return { contents, resolveDir: join(ROOT, "scripts") };
    });
  },
};

/** Runs esbuild. Rejects on warnings too. */
export async function buildSound(options: BuildOptions): Promise<BuildResult> {
  const result = await build({ ...options, logLevel: "warning" });
  const { length } = result.warnings;
  if (length > 0) throw new Error(`esbuild warned ${length} times, see above`);
  return result;
}

/** The texts that stand in for files of the sources, by the names that esbuild puts them in for. */
export function assetTexts(): Record<string, string> {
  const textOf = (...path: string[]) => JSON.stringify(readFileSync(join(ROOT, ...path), "utf8"));
  return {
    POSTBACKD_SCHEMA_SQL: textOf("schema.sql"),
    POSTBACKD_POSTGRES_SCHEMA_SQL: textOf("schema-postgres.sql"),
    POSTBACKD_SERVICE_UNIT: textOf("deploy", "postbackd.service"),
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

/** The dashboard as JSON, its bytes in Base64: `bundled-assets.ts` unpacks it. */
export function packedDashboard(): string {
  const file = join(ROOT, "dist", "dashboard.json");
  if (!existsSync(file)) throw new Error("the dashboard is not built: npm run build:dashboard");
  return readFileSync(file, "utf8");
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
        // Their replacement may import some of them itself.
        const isReplaced = join(resolveDir, path) === assets && importer !== packaged;
        return isReplaced ? { path: packaged } : undefined;
      });
    },
  };
}

// The URL of the sources' assets. The assets of `scripts` use it too: both folders have the same parent.
const ASSETS_URL = pathToFileURL(join(ROOT, "src", "assets.ts")).href;

/** Bundles what tests start, into a folder below node_modules: better-sqlite3 is found there. */
export async function bundleForTests(options: BuildOptions): Promise<void> {
  await buildSound({
    ...COMMON,
    external: ["better-sqlite3"],
    define: { "import.meta.url": JSON.stringify(ASSETS_URL) },
    ...options,
    plugins: [...(options.plugins ?? []), withoutUnusedCode()],
  });
}

/** The names that are imported from a module; none where `require` gives what is used. */
type Stubs = Readonly<Record<string, readonly string[]>>;

/**
 * Imports of features that the program does not use, by the package that imports them. listhen
 * could start a tunnel (it would download cloudflared), make certificates, print a QR code, fill the clipboard, open a
 * browser and serve web sockets; consola could ask questions, pino send its log to threads.
 */
const UNUSED: Readonly<Record<string, Stubs>> = {
  listhen: {
    untun: ["startTunnel"],
    "node-forge": ["default"],
    uqr: ["renderUnicodeCompact"],
    tinyclip: ["writeText"],
    "../chunks/xdg-open.mjs": ["xdgOpenScript"],
    "crossws/adapters/node": ["default"],
  },
  consola: { "./chunks/prompt.mjs": ["prompt"] },
  pino: { "thread-stream": [] },
};

const NAMESPACE = "unused";

/**
 * Leaves code out of a bundle that is never run: something that throws stands in for it. A module of the list that is
 * not imported any more fails the build, so that the list stays true.
 */
export function withoutUnusedCode(): Plugin {
  const left = new Set(Object.values(UNUSED).flatMap((stubs) => Object.keys(stubs)));
  return {
    name: "unused-code",
    setup(build) {
      build.onResolve({ filter: /^[^/]/ }, ({ path, importer }) => {
        const names = UNUSED[packageOf(importer)]?.[path];
        if (names === undefined) return undefined;
        left.delete(path);
        return { path, namespace: NAMESPACE, pluginData: names };
      });
      build.onLoad({ filter: /.*/, namespace: NAMESPACE }, ({ path, pluginData }) => {
        // The resolution above set it.
        return { contents: stubOf(path, pluginData as readonly string[]) };
      });
      build.onEnd(() => {
        const text = `nothing imports ${[...left].join(", ")}: take it off the list in scripts/bundle.ts`;
        return left.size === 0 ? {} : { errors: [{ text }] };
      });
    },
  };
}

/** The package that a file belongs to; empty for a file of the project's own. */
function packageOf(file: string): string {
  const [, ...parts] = file.split(`${sep}node_modules${sep}`);
  const [first = "", second = ""] = parts.at(-1)?.split(sep) ?? [];
  return first.startsWith("@") ? `${first}/${second}` : first;
}

function stubOf(path: string, names: readonly string[]): string {
  const message = `${path} is not in the executable: nothing was meant to use it`;
  const stub = "new Proxy(refuse, { get: refuse })";
  const lines = names.map((name) =>
    name === "default" ? `export default ${stub};` : `export const ${name} = ${stub};`,
  );
  if (names.length === 0) lines.push(`module.exports = ${stub};`);
  // To call it, to construct it and to look at what it has throws alike.
  lines.unshift(`function refuse() { throw new Error(${JSON.stringify(message)}); }`);
  return lines.join("\n");
}

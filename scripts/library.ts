import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

import type { Plugin } from "esbuild";

import {
  assetsFrom,
  assetTexts,
  buildSound,
  HELPERS,
  packedDashboard,
  withoutUnusedCode,
} from "./bundle.ts";
import { ROOT } from "./manifest.ts";
import { apiTypes, configTypes } from "./package-types.ts";
import { runTool } from "./package/staging.ts";

// What package.json exports; each becomes a module of its own, with all that it needs to check signatures.
const MODULES = ["index.ts", "verify.ts", "worker.ts", "client/client.ts", "testing/testing.ts"];

/** Types that are written from schemas: the types of the sources would need all schemas and half of `domain`. */
const WRITTEN_TYPES: Readonly<Record<string, () => string>> = {
  "client/api": apiTypes,
  "embedded/config-settings": configTypes,
};

/** The folder of what `require` gives. */
const REQUIRED_FOLDER = "cjs";

/** The folder in which better-sqlite3 searches its addon. */
const ADDONS_FOLDER = "prebuilds";

/** The systems for which npm's package has an addon: without `/proc`, some of the daemon's checks are missing. */
const ADDONS = ["linux", "linuxmusl", "darwin"].flatMap((system) => [
  `${system}-x64`,
  `${system}-arm64`,
]);

/** The folder of what runs the daemon, beside the modules above. */
const DAEMON_FOLDER = "daemon";

const DAEMON_MODULES = { daemon: "embedded/daemon.ts", ...HELPERS };

/**
 * Makes the modules that other programs import, as ES modules and for `require`, their types, and the command of npm's
 * package. Rejects on warnings too.
 *
 * Nothing of node_modules is needed beside them. better-sqlite3 least of all: where a lock names it, `npm ci` does not
 * see its `gypfile: false` and compiles it, which ends the installation where there is no Python, `make` or network.
 * In CommonJS it finds its addon by its own place: `prebuilds` above the folder it is bundled into.
 */
export async function buildLibrary(outFolder: string): Promise<void> {
  await bundleModules(outFolder, "esm");
  await bundleModules(join(outFolder, REQUIRED_FOLDER), "cjs");
  await bundleCommand(outFolder);
  const daemonFolder = join(outFolder, DAEMON_FOLDER);
  // A daemon in another program serves no dashboard.
  await bundleForNode(daemonFolder, { modules: DAEMON_MODULES, dashboard: "[]" });
  const main = { main: "main.ts" };
  await bundleForNode(daemonFolder, { modules: main, dashboard: packedDashboard() });
  copyAddons(join(outFolder, ADDONS_FOLDER));
  declareTypes(outFolder);
  // Of another format than those outside, they need a package.json that says so; so do their types.
  const required = join(outFolder, REQUIRED_FOLDER);
  writeFileSync(join(required, "package.json"), '{"type":"commonjs"}\n');
  declareTypes(required);
}

/** The modules of an import or a `require` of the package. */
async function bundleModules(outdir: string, format: "esm" | "cjs"): Promise<void> {
  // For `require`, the daemon is not next to the module, but next to its folder.
  const up = format === "esm" ? "" : "../";
  await buildSound({
    entryPoints: MODULES.map((name) => join(ROOT, "src", name)),
    outdir,
    format,
    bundle: true,
    // No global and no module of any runtime is taken for granted, before a daemon is asked for; but for a worker's.
    platform: "neutral",
    external: ["node:*"],
    target: "es2022",
    // Jest and vitest's `vmThreads` run CommonJS in a realm where `import()` throws.
    ...(format === "cjs" && { supported: { "dynamic-import": false } }),
    plugins: [
      apart(/^\.\/embedded\/daemon\.ts$/, `./${up}${DAEMON_FOLDER}/daemon.cjs`),
      apart(/^\.\.\/embedded\/daemon\.ts$/, `../${up}${DAEMON_FOLDER}/daemon.cjs`),
    ],
  });
}

/** The command that npm puts into the path. It also runs on older versions of Node, for its error message. */
async function bundleCommand(outdir: string): Promise<void> {
  await buildSound({
    entryPoints: [join(ROOT, "src", "command.ts")],
    outdir,
    outExtension: { ".js": ".cjs" },
    format: "cjs",
    bundle: true,
    platform: "node",
    target: "node14",
    banner: { js: "#!/usr/bin/env node" },
    plugins: [apart(/^\.\/main\.ts$/, `./${DAEMON_FOLDER}/main.cjs`)],
  });
}

interface NodeModules {
  /** The sources by the name of what is made of them. */
  readonly modules: Readonly<Record<string, string>>;
  readonly dashboard: string;
}

async function bundleForNode(outdir: string, { modules, dashboard }: NodeModules): Promise<void> {
  await buildSound({
    entryPoints: Object.entries(modules).map(([out, name]) => {
      return { in: join(ROOT, "src", name), out };
    }),
    outdir,
    outExtension: { ".js": ".cjs" },
    format: "cjs",
    bundle: true,
    platform: "node",
    target: "node24",
    // Packages take their timers from where the sources do.
    inject: [join(ROOT, "src", "domain", "clock", "timers.ts")],
    define: {
      ...assetTexts(),
      POSTBACKD_DASHBOARD: dashboard,
      "process.nextTick": "nextTick",
    },
    plugins: [assetsFrom("library-assets.ts"), withoutUnusedCode()],
  });
}

/** Leaves a module to a file of its own, which is loaded when it is asked for: who checks signatures needs no daemon. */
function apart(filter: RegExp, path: string): Plugin {
  return {
    name: "apart",
    setup(setup) {
      setup.onResolve({ filter }, () => ({ path, external: true }));
    },
  };
}

function copyAddons(folder: string): void {
  const prebuilds = join(ROOT, "node_modules", "better-sqlite3", "prebuilds");
  mkdirSync(folder, { recursive: true });
  for (const name of ADDONS)
    copyFileSync(join(prebuilds, `${name}.node`), join(folder, `${name}.node`));
}

/** Makes the types of the exported modules and of what these name: the daemon itself is not among it. */
function declareTypes(outFolder: string): void {
  const files = new Set<string>();
  for (const name of MODULES) addNamed(join(ROOT, "src", name), files);
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");
  const args = [
    // Files are named, so none of the project's settings is read.
    ...["--ignoreConfig", "--strict", "--exactOptionalPropertyTypes"],
    ...["--module", "nodenext", "--target", "esnext", "--lib", "esnext", "--types", "node"],
    ...["--declaration", "--emitDeclarationOnly", "--allowImportingTsExtensions"],
    // Nothing but the named files is looked at, and nothing of them needs to be: every type is written out. They are
    // type-checked with the other files, by the project's settings.
    ...["--isolatedDeclarations", "--noResolve", "--noCheck"],
    ...["--rootDir", join(ROOT, "src"), "--outDir", outFolder],
  ];
  runTool([process.execPath, tsc, ...args, ...files]);
  for (const [name, typesOf] of Object.entries(WRITTEN_TYPES)) {
    writeFileSync(join(outFolder, `${name}.d.ts`), typesOf());
  }
}

/** Adds a file and the files of its types: modules that it imports only to run are not part of its declarations. */
function addNamed(file: string, files: Set<string>): void {
  const name = relative(join(ROOT, "src"), file).replace(/\.ts$/, "");
  if (files.has(file) || Object.hasOwn(WRITTEN_TYPES, name)) return;
  files.add(file);
  for (const [, path = ""] of readFileSync(file, "utf8").matchAll(TYPES_FROM)) {
    addNamed(join(dirname(file), path), files);
  }
}

const TYPES_FROM =
  /^(?:export (?:type )?[{*]|import type |import \{[^}]*\btype )[^;]*? from "(\.[^"]*)"/gm;

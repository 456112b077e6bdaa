import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import type { Plugin } from "esbuild";

import { assetsFrom, assetTexts, buildSound } from "./bundle.ts";
import { ROOT } from "./manifest.ts";

// What package.json exports; each becomes a module of its own, with all that it needs to check signatures.
const MODULES = ["index.ts", "verify.ts"];

/** The folder of what `createDaemon` loads, beside the modules above. */
const DAEMON_FOLDER = "embedded";

const DAEMON_MODULES = {
  daemon: "embedded/daemon.ts",
  "writer-thread": "store/sqlite/writer-thread.ts",
  "reader-thread": "store/sqlite/reader-thread.ts",
  "backup-thread": "store/sqlite/backup-thread.ts",
  "parser-thread": "parser/parser-thread.ts",
  "command-host-main": "runners/command/command-host-main.ts",
};

/** Makes the modules that other programs import, and their types. Rejects on warnings too. */
export async function buildLibrary(outFolder: string): Promise<void> {
  const common = { bundle: true, format: "esm" } as const;
  await buildSound({
    ...common,
    entryPoints: MODULES.map((name) => join(ROOT, "src", name)),
    outdir: outFolder,
    // No global and no module of any runtime is taken for granted, before a daemon is asked for.
    platform: "neutral",
    target: "es2022",
    plugins: [DAEMON_APART],
  });
  await buildSound({
    ...common,
    entryPoints: Object.entries(DAEMON_MODULES).map(([out, name]) => {
      return { in: join(ROOT, "src", name), out };
    }),
    outdir: join(outFolder, DAEMON_FOLDER),
    platform: "node",
    target: "node24",
    packages: "external",
    define: assetTexts(),
    plugins: [assetsFrom("library-assets.ts")],
  });
  declareTypes(outFolder);
}

/** Leaves the daemon to a module of its own: who checks signatures alone never loads it. */
const DAEMON_APART: Plugin = {
  name: "daemon-apart",
  setup(setup) {
    setup.onResolve({ filter: /^\.\/embedded\/daemon\.ts$/ }, () => ({
      path: `./${DAEMON_FOLDER}/daemon.js`,
      external: true,
    }));
  },
};

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
    // Nothing but the named files is looked at, and nothing of them needs to be: every type is written out. What
    // they say is checked with all the rest, by the project's settings.
    ...["--isolatedDeclarations", "--noResolve", "--noCheck"],
    ...["--rootDir", join(ROOT, "src"), "--outDir", outFolder],
  ];
  const { status, stdout } = spawnSync(process.execPath, [tsc, ...args, ...files], {
    cwd: ROOT,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`tsc ended with ${status}:\n${stdout}`);
}

/** Adds a file and all that it names, but for what it imports only when it is asked to. */
function addNamed(file: string, files: Set<string>): void {
  if (files.has(file)) return;
  files.add(file);
  for (const [, path = ""] of readFileSync(file, "utf8").matchAll(/ from "(\.[^"]*)"/g)) {
    addNamed(join(dirname(file), path), files);
  }
}

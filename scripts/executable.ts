import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

import { bundle, bundleLoader } from "./bundle.ts";
import { ROOT } from "./manifest.ts";
import { hostPlatform, type Platform } from "./platform.ts";
import {
  ADDON_ASSET,
  LOADER_ASSET,
  PROGRAMS,
  wrapProgram,
  type ProgramAssets,
} from "./program-assets.ts";

/** An executable to make. */
export interface Executable {
  readonly platform: Platform;
  /** The pinned Node for that platform: the file that becomes the executable. */
  readonly node: string;
  readonly output: string;
}

// Set before V8 and Node start. With 128 webhooks to a host the whole way does 1.04 times as many tasks a second as with halves
// of 4 MB and Node's own four threads while the machine is quiet, and 1.07 to 1.29 times while others use it too; in less
// memory (docs/performance.md).
const FLAGS = [
  // The young generation of V8's heap has two halves of 8 MB; see `young-generation.ts`.
  "--max-semi-space-size=8",
  // The main thread collects it alone: helpers that were woken for it, each millisecond or so, took its core away.
  "--no-parallel-scavenge",
  // One thread is enough for what is left to them: marking and compiling.
  "--v8-pool-size=1",
  // The heap doubles before it is collected as a whole. Left alone it grows to four times what lives in it: 30 MB more.
  "--heap-growing-percent=100",
  // Otherwise SIGUSR1 would open Node's debugger to every user of the machine.
  "--disable-sigusr1",
];

const CONFIGURATION = "program.json";
// Where Node looks for what was put in, and the mark that tells it to look.
const BLOB = "NODE_SEA_BLOB";
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/**
 * Makes an executable, on whatever platform this runs: a copy of that Node with its programs in it as a bundle each, SQLite's
 * addon, and on the platform itself what V8 makes of the programs (nodejs.org/api/single-executable-applications.html).
 * Nothing is downloaded, and the same sources give the same bytes.
 */
export async function buildExecutable({ platform, node, output }: Executable): Promise<void> {
  const work = join(ROOT, "dist", ".build", platform);
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  for (const program of PROGRAMS) {
    await bundle(program, { folder: work, platform });
    const source = join(work, program.source);
    writeFileSync(source, wrapProgram(readFileSync(source, "utf8")));
    recordCache(program, { work, platform });
  }
  await bundleLoader(join(work, LOADER_ASSET));
  const unfinished = join(work, "postbackd");
  copyFileSync(node, unfinished);
  inject(unfinished, makeBlob(work, platform));
  chmodSync(unfinished, 0o755);
  // A running executable cannot be overwritten, but its name can be given to another file.
  mkdirSync(dirname(output), { recursive: true });
  renameSync(unfinished, output);
}

function recordCache(
  { source, cache }: ProgramAssets,
  { work, platform }: { readonly work: string; readonly platform: Platform },
): void {
  // What another processor's V8 makes is not taken.
  if (platform !== hostPlatform()) return writeFileSync(join(work, cache), "");
  const recorder = join(ROOT, "scripts", "record-program.ts");
  // The seed is none of the flags that V8 compares. With it, and without a loader and an environment, the same program
  // gives the same bytes.
  const flags = [...FLAGS, "--random-seed=1"];
  runNode([...flags, recorder, source, cache], { cwd: work, env: {} });
}

/** Makes the file that is put into Node, and answers its path. */
function makeBlob(work: string, platform: Platform): string {
  const addon = join(ROOT, "node_modules", "better-sqlite3", "prebuilds", `${platform}.node`);
  copyFileSync(addon, join(work, ADDON_ASSET));
  const programs = PROGRAMS.flatMap(({ source, cache }) => [source, cache]);
  const names = [...programs, LOADER_ASSET, ADDON_ASSET];
  const configuration = {
    main: LOADER_ASSET,
    output: "program.blob",
    disableExperimentalSEAWarning: true,
    execArgv: FLAGS,
    assets: Object.fromEntries(names.map((name) => [name, name])),
  };
  writeFileSync(join(work, CONFIGURATION), JSON.stringify(configuration));
  // There: the paths of the configuration are in what it makes.
  runNode(["--experimental-sea-config", CONFIGURATION], { cwd: work });
  return join(work, configuration.output);
}

function inject(executable: string, blob: string): void {
  const postject = join(ROOT, "node_modules", "postject", "dist", "cli.js");
  runNode([postject, executable, BLOB, blob, "--sentinel-fuse", FUSE]);
}

function runNode(
  args: readonly string[],
  {
    cwd = ROOT,
    env = process.env,
  }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): void {
  const options = { cwd, env, encoding: "utf8" } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
  if (status !== 0)
    throw new Error(`node ${args.join(" ")} ended with ${status}:\n${stdout}${stderr}`);
}

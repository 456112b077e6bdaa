import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

import { bundle, bundleLoader } from "./bundle.ts";
import { type Platform, ROOT, hostPlatform, nodeVersion } from "./manifest.ts";
import { runTool } from "./package/staging.ts";
import {
  ADDON_ASSET,
  LOADER_ASSET,
  PROGRAMS,
  wrapProgram,
  type ProgramAssets,
} from "./program-assets.ts";

export interface Executable {
  readonly platform: Platform;
  /** The pinned Node for that platform: the file that becomes the executable. */
  readonly node: string;
  readonly output: string;
}

// Set before V8 and Node start. With 128 webhooks to a host the whole way does 1.04 times as many tasks a second as with halves
// of 4 MB and Node's own four threads while the machine is quiet, and 1.07 to 1.29 times while others use it too; in less
// memory (docs/project/performance.md).
const FLAGS = [
  // The young generation of V8's heap has two halves of 8 MB; see `young-generation.ts`.
  "--max-semi-space-size=8",
  // The main thread collects it alone: helpers that were woken for it, each millisecond or so, took its core away.
  "--no-parallel-scavenge",
  // One thread is enough for what is left to them: marking and compiling.
  "--v8-pool-size=1",
  // The heap doubles before it is collected entirely. Left alone it grows to four times what lives in it: 30 MB more.
  "--heap-growing-percent=100",
  // Otherwise SIGUSR1 would open Node's debugger to every user of the machine.
  "--disable-sigusr1",
];

/**
 * Builds an executable on any of the platforms: a copy of its Node that contains the bundled programs and SQLite's addon.
 * On its own platform it also contains the code that V8 compiled from the programs. Nothing is downloaded, and the same
 * sources give the same bytes.
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
  const addon = join(ROOT, "node_modules", "better-sqlite3", "prebuilds", `${platform}.node`);
  copyFileSync(addon, join(work, ADDON_ASSET));
  offerNode(node, { work, platform });
  const unfinished = join(work, "postbackd");
  assemble(unfinished, { work, platform });
  chmodSync(unfinished, 0o755);
  // A running executable cannot be overwritten, but its name can be given to another file.
  mkdirSync(dirname(output), { recursive: true });
  renameSync(unfinished, output);
}

/** The folder that an executable is built in, and its platform. */
interface Work {
  readonly work: string;
  readonly platform: Platform;
}

function recordCache({ source, cache }: ProgramAssets, { work, platform }: Work): void {
  // Code that V8 compiled for another processor is not accepted.
  if (platform !== hostPlatform()) return writeFileSync(join(work, cache), "");
  const recorder = join(ROOT, "scripts", "record-program.ts");
  // The seed is not one of the flags that V8 compares. With it, and without a loader and an environment, the same
  // program gives the same bytes.
  const flags = [...FLAGS, "--random-seed=1"];
  runNode([...flags, recorder, source, cache], work);
}

/** Puts the pinned Node where pkg keeps a Node that it has downloaded: pkg takes it and downloads nothing. */
function offerNode(node: string, { work, platform }: Work): void {
  const cache = join(work, ".pkg-cache", "sea");
  const name = `node-v${nodeVersion}-${platform}`;
  mkdirSync(join(cache, name, "bin"), { recursive: true });
  symlinkSync(node, join(cache, name, "bin", "node"));
  const marks = [`${name}.tar.gz`, `${name}.tar.gz.ok`, join(name, "bin", "node.ok")];
  for (const mark of marks) writeFileSync(join(cache, mark), "");
}

function assemble(output: string, { work, platform }: Work): void {
  const programs = PROGRAMS.flatMap(({ source, cache }) => [source, cache]);
  const names = [...programs, LOADER_ASSET, ADDON_ASSET];
  // pkg runs Node in a folder that it makes in `work`. Paths relative to that folder keep its name out of the executable.
  const path = (name: string) => join("..", name);
  const assets = Object.fromEntries(names.map((name) => [name, path(name)]));
  const seaConfig = { main: path(LOADER_ASSET), execArgv: FLAGS, assets };
  const arch = platform.replace("linux-", "");
  const targets = [{ platform: "linux", arch, nodeRange: `node${nodeVersion}`, output }];
  const assembler = join(ROOT, "scripts", "assemble.ts");
  const args = [assembler, LOADER_ASSET, JSON.stringify({ targets, seaConfig })];
  runNode(args, work, `HOME=${work}`, `TMPDIR=${work}`);
}

/** Runs Node in the folder of the build, with no other environment than these variables. */
function runNode(args: readonly string[], work: string, ...variables: readonly string[]): void {
  runTool(["env", "--ignore-environment", ...variables, process.execPath, ...args], { cwd: work });
}

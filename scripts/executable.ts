import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";

import { bundle } from "./bundle.ts";
import { ROOT, nodeVersion } from "./manifest.ts";

/** The platforms that an executable is made for. */
export const PLATFORMS = ["linux-x64", "linux-arm64"] as const;
export type Platform = (typeof PLATFORMS)[number];

/** An executable to make. */
export interface Executable {
  readonly platform: Platform;
  /** The pinned Node for that platform: the file that becomes the executable. */
  readonly node: string;
  readonly output: string;
}

/** Where one is made: its folders, beside what it is. */
interface Workshop extends Executable {
  /** Bundle and pkg's configuration. Inside the project, so that pkg finds node_modules above it. */
  readonly work: string;
  /** What pkg takes for the user's home. */
  readonly home: string;
}

// What pkg has, and what it is to have instead: see `copyPkg`.
const HOME_CACHE = 'process.env.PKG_NATIVE_CACHE_PATH || path.join(homedir(), ".cache")';
const GIVEN_CACHE = 'process.env.PKG_NATIVE_CACHE_PATH || "/nonexistent"';
const MAIN_PATH = "const bootstrapPath = (0, path_1.join)(tmpDir, 'sea-main.js');";
// Its temporary folder is the working folder by then.
const MAIN_NAME = "const bootstrapPath = 'sea-main.js';";

/** The platform this runs on. Throws where no executable is made for it. */
export function hostPlatform(): Platform {
  const host = `${process.platform}-${process.arch}`;
  const known = PLATFORMS.find((name) => name === host);
  if (known !== undefined) return known;
  throw new Error(`no executable is made for ${host}: only for ${PLATFORMS.join(" and ")}`);
}

/**
 * Makes an executable, on whatever platform this runs: esbuild makes one file of the sources, pkg puts it with SQLite's
 * addon into a copy of that Node. Nothing is downloaded.
 */
export async function buildExecutable(executable: Executable): Promise<void> {
  const work = join(ROOT, "dist", ".build", executable.platform);
  const home = mkdtempSync(join(tmpdir(), "postbackd-build-"));
  try {
    rmSync(work, { recursive: true, force: true });
    mkdirSync(work, { recursive: true });
    await bundle(join(work, "postbackd.cjs"));
    build({ ...executable, work, home });
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function build(workshop: Workshop): void {
  writePkgConfiguration(workshop);
  placeBase(workshop);
  const unfinished = join(workshop.work, "postbackd");
  runPkg(workshop, unfinished);
  chmodSync(unfinished, 0o755);
  // A running executable cannot be overwritten, but its name can be given to another file.
  mkdirSync(dirname(workshop.output), { recursive: true });
  renameSync(unfinished, workshop.output);
}

function writePkgConfiguration({ platform, work }: Workshop): void {
  const addon = join(ROOT, "node_modules", "better-sqlite3", "prebuilds", `${platform}.node`);
  const assets = [relative(work, addon)];
  // 26 MB that nothing in the executable reads: SQLite's sources and the addons of other platforms.
  const ignore = ["deps/**", "src/**", `prebuilds/!(${platform}).node`].map(
    (glob) => `**/better-sqlite3/${glob}`,
  );
  const configuration = { name: "postbackd", bin: "postbackd.cjs", pkg: { assets, ignore } };
  writeFileSync(join(work, "package.json"), JSON.stringify(configuration));
}

/**
 * Lays the pinned Node where pkg keeps what it has downloaded. The archive is empty, because nobody
 * opens it: a file `.ok` beside archive and executable tells pkg that each of them is whole.
 */
function placeBase({ platform, node, home }: Workshop): void {
  const cache = join(home, ".pkg-cache", "sea");
  const base = `node-v${nodeVersion}-${platform}`;
  const executable = join(cache, base, "bin", "node");
  mkdirSync(dirname(executable), { recursive: true });
  linkOrCopy(node, executable);
  for (const empty of [`${executable}.ok`, `${base}.tar.gz`, `${base}.tar.gz.ok`])
    writeFileSync(resolve(cache, empty), "");
}

function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    // The temporary folder may be on another file system; a copy is only slower.
    copyFileSync(from, to);
  }
}

/**
 * Copies pkg, so that what it does can be changed.
 *
 * What it puts before our program looks for the user's home before our first line runs, and ends with a stack where
 * there is none: no HOME, and a user without an entry in /etc/passwd, as in many containers. It would unpack addons
 * there, which our program does itself (`packaged-assets.ts`).
 *
 * And it leaves the name of its temporary folder in the executable, so that no two builds were alike.
 */
function copyPkg(work: string): string {
  const copy = join(work, "pkg");
  cpSync(join(ROOT, "node_modules", "@yao-pkg", "pkg"), copy, { recursive: true });
  change(join(copy, "prelude", "sea-bootstrap.bundle.js"), HOME_CACHE, GIVEN_CACHE);
  change(join(copy, "lib-es5", "sea.js"), MAIN_PATH, MAIN_NAME);
  return copy;
}

function change(file: string, from: string, to: string): void {
  const text = readFileSync(file, "utf8");
  if (!text.includes(from))
    throw new Error(`pkg is another one than this was written for: no ${from} in ${file}`);
  writeFileSync(
    file,
    text.replaceAll(from, () => to),
  );
}

function runPkg({ platform, work, home }: Workshop, output: string): void {
  const pkg = join(copyPkg(work), "lib-es5", "bin.js");
  // All three parts of the version, or pkg asks the network for the newest of that line.
  const target = `node${nodeVersion}-${platform}`;
  const args = [pkg, "--sea", "package.json", "--target", target, "--output", output];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: work,
    env: { ...process.env, HOME: home },
    encoding: "utf8",
  });
  // pkg warns of a module that it cannot find; that fails only when the executable needs it.
  const isSound = status === 0 && !stdout.includes("> Warning");
  if (!isSound) throw new Error(`pkg ended with ${status}:\n${stdout}${stderr}`);
}

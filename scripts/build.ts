import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";

import { bundle } from "./bundle.ts";
import { buildLibrary } from "./library.ts";
import { packageManifest, requirePinnedNode } from "./manifest.ts";

/**
 * Builds `dist/postbackd`, one executable for the platform this runs on: esbuild makes one file of the
 * sources, pkg puts it with SQLite's addon into a copy of the pinned Node. Nothing is downloaded.
 * Beside it come the modules that other programs import, which run anywhere.
 */

const ROOT = dirname(import.meta.dirname);

const PLATFORMS = ["linux-x64", "linux-arm64"] as const;
type Platform = (typeof PLATFORMS)[number];

interface Paths {
  /** Bundle and pkg's configuration. Inside the project, so that pkg finds node_modules above it. */
  readonly work: string;
  /** pkg takes this for the user's home. */
  readonly home: string;
  readonly executable: string;
}

requirePinnedNode(ROOT);
await buildLibrary({ root: ROOT, outFolder: join(ROOT, "dist") });
await buildExecutable();

async function buildExecutable(): Promise<void> {
  const dist = join(ROOT, "dist");
  const paths: Paths = {
    work: join(dist, ".build"),
    home: mkdtempSync(join(tmpdir(), "postbackd-build-")),
    executable: join(dist, "postbackd"),
  };
  try {
    await makeExecutable(paths);
  } finally {
    rmSync(paths.home, { recursive: true, force: true });
  }
  const bytes = statSync(paths.executable).size;
  const name = relative(ROOT, paths.executable);
  process.stdout.write(`${name}: ${(bytes / 1e6).toFixed(0)} MB, ${hostPlatform()}\n`);
}

async function makeExecutable(paths: Paths): Promise<void> {
  const platform = hostPlatform();
  rmSync(paths.work, { recursive: true, force: true });
  mkdirSync(paths.work, { recursive: true });
  await bundle({ root: ROOT, outFile: join(paths.work, "postbackd.cjs") });
  writePkgConfiguration(paths, platform);
  placeBase(paths.home, platform);

  const unfinished = join(paths.work, "postbackd");
  runPkg(paths, { platform, output: unfinished });
  chmodSync(unfinished, 0o755);
  // A running executable cannot be overwritten, but its name can be given to another file.
  renameSync(unfinished, paths.executable);
}

function hostPlatform(): Platform {
  const host = `${process.platform}-${process.arch}`;
  const platform = PLATFORMS.find((name) => name === host);
  if (platform !== undefined) return platform;
  throw new Error(`no executable is made for ${host}: only for ${PLATFORMS.join(" and ")}`);
}

function writePkgConfiguration(paths: Paths, platform: Platform): void {
  const addon = join(ROOT, "node_modules", "better-sqlite3", "prebuilds", `${platform}.node`);
  const assets = [relative(paths.work, addon)];
  // 26 MB that nothing in the executable reads: SQLite's sources and the addons of other platforms.
  const ignore = ["deps/**", "src/**", `prebuilds/!(${platform}).node`].map(
    (glob) => `**/better-sqlite3/${glob}`,
  );
  const configuration = { name: "postbackd", bin: "postbackd.cjs", pkg: { assets, ignore } };
  writeFileSync(join(paths.work, "package.json"), JSON.stringify(configuration));
}

/**
 * Lays the pinned Node where pkg keeps what it has downloaded. The archive is empty, because nobody
 * opens it: a file `.ok` beside archive and executable tells pkg that each of them is whole.
 */
function placeBase(home: string, platform: Platform): void {
  const cache = join(home, ".pkg-cache", "sea");
  const base = `node-v${packageManifest(ROOT).nodeVersion}-${platform}`;
  const executable = join(cache, base, "bin", "node");
  mkdirSync(dirname(executable), { recursive: true });
  linkOrCopy(process.execPath, executable);
  writeFileSync(`${executable}.ok`, "");
  writeFileSync(join(cache, `${base}.tar.gz`), "");
  writeFileSync(join(cache, `${base}.tar.gz.ok`), "");
}

function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    // The temporary folder may be on another file system; a copy is only slower.
    copyFileSync(from, to);
  }
}

interface PkgRun {
  readonly platform: Platform;
  readonly output: string;
}

function runPkg(paths: Paths, { platform, output }: PkgRun): void {
  const pkg = join(ROOT, "node_modules", "@yao-pkg", "pkg", "lib-es5", "bin.js");
  // All three parts of the version, or pkg asks the network for the newest of that line.
  const target = `node${packageManifest(ROOT).nodeVersion}-${platform}`;
  const args = [pkg, "--sea", "package.json", "--target", target, "--output", output];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: paths.work,
    env: { ...process.env, HOME: paths.home },
    encoding: "utf8",
  });
  // pkg warns of a module that it cannot find; that fails only when the executable needs it.
  const isSound = status === 0 && !stdout.includes("> Warning");
  if (!isSound) throw new Error(`pkg ended with ${status}:\n${stdout}${stderr}`);
}

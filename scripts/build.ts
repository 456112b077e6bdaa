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
import { dirname, join, relative, resolve } from "node:path";

import { bundle } from "./bundle.ts";
import { buildLibrary } from "./library.ts";
import { ROOT, nodeVersion, requirePinnedNode } from "./manifest.ts";

/**
 * Builds `dist/postbackd`, one executable for the platform this runs on: esbuild makes one file of the
 * sources, pkg puts it with SQLite's addon into a copy of the pinned Node. Nothing is downloaded.
 * Beside it come the modules that other programs import, which run anywhere.
 */

const PLATFORMS = ["linux-x64", "linux-arm64"] as const;
type Platform = (typeof PLATFORMS)[number];

const DIST = join(ROOT, "dist");
/** Bundle and pkg's configuration. Inside the project, so that pkg finds node_modules above it. */
const WORK = join(DIST, ".build");

requirePinnedNode();
await buildLibrary(DIST);
const platform = hostPlatform();
// pkg takes this for the user's home.
const home = mkdtempSync(join(tmpdir(), "postbackd-build-"));
try {
  await buildExecutable(join(DIST, "postbackd"));
} finally {
  rmSync(home, { recursive: true, force: true });
}

async function buildExecutable(executable: string): Promise<void> {
  rmSync(WORK, { recursive: true, force: true });
  mkdirSync(WORK, { recursive: true });
  await bundle(join(WORK, "postbackd.cjs"));
  writePkgConfiguration();
  placeBase();

  const unfinished = join(WORK, "postbackd");
  runPkg(unfinished);
  chmodSync(unfinished, 0o755);
  // A running executable cannot be overwritten, but its name can be given to another file.
  renameSync(unfinished, executable);
  const megabytes = (statSync(executable).size / 1e6).toFixed(0);
  process.stdout.write(`${relative(ROOT, executable)}: ${megabytes} MB, ${platform}\n`);
}

function hostPlatform(): Platform {
  const host = `${process.platform}-${process.arch}`;
  const known = PLATFORMS.find((name) => name === host);
  if (known !== undefined) return known;
  throw new Error(`no executable is made for ${host}: only for ${PLATFORMS.join(" and ")}`);
}

function writePkgConfiguration(): void {
  const addon = join(ROOT, "node_modules", "better-sqlite3", "prebuilds", `${platform}.node`);
  const assets = [relative(WORK, addon)];
  // 26 MB that nothing in the executable reads: SQLite's sources and the addons of other platforms.
  const ignore = ["deps/**", "src/**", `prebuilds/!(${platform}).node`].map(
    (glob) => `**/better-sqlite3/${glob}`,
  );
  const configuration = { name: "postbackd", bin: "postbackd.cjs", pkg: { assets, ignore } };
  writeFileSync(join(WORK, "package.json"), JSON.stringify(configuration));
}

/**
 * Lays the pinned Node where pkg keeps what it has downloaded. The archive is empty, because nobody
 * opens it: a file `.ok` beside archive and executable tells pkg that each of them is whole.
 */
function placeBase(): void {
  const cache = join(home, ".pkg-cache", "sea");
  const base = `node-v${nodeVersion}-${platform}`;
  const executable = join(cache, base, "bin", "node");
  mkdirSync(dirname(executable), { recursive: true });
  linkOrCopy(process.execPath, executable);
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

function runPkg(output: string): void {
  const pkg = join(ROOT, "node_modules", "@yao-pkg", "pkg", "lib-es5", "bin.js");
  // All three parts of the version, or pkg asks the network for the newest of that line.
  const target = `node${nodeVersion}-${platform}`;
  const args = [pkg, "--sea", "package.json", "--target", target, "--output", output];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: WORK,
    env: { ...process.env, HOME: home },
    encoding: "utf8",
  });
  // pkg warns of a module that it cannot find; that fails only when the executable needs it.
  const isSound = status === 0 && !stdout.includes("> Warning");
  if (!isSound) throw new Error(`pkg ended with ${status}:\n${stdout}${stderr}`);
}

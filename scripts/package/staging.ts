import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";

import { ROOT } from "../manifest.ts";

/** The files of a package by path: their bytes, or the place of a file to copy. */
export type PackageFiles = Readonly<Record<string, Buffer | string>>;

/** The folder of packages, and how they are packed. */
export interface Packing {
  readonly folder: string;
  /** Seconds since the epoch, see `sourceDate`. */
  readonly date: number;
  /** Packed in a tenth of the time and larger: for tests. */
  readonly isQuick?: boolean;
}

/**
 * The time of everything in packages, in seconds since the epoch: `SOURCE_DATE_EPOCH`, else the commit's time.
 * Packages that are made again from the same commit are the same, byte for byte.
 */
export function sourceDate(): number {
  const given = process.env["SOURCE_DATE_EPOCH"];
  if (given !== undefined && /^\d+$/.test(given)) return Number(given);
  const git = spawnSync("git", ["log", "-1", "--format=%ct"], { cwd: ROOT, encoding: "utf8" });
  if (git.status === 0) return Number(git.stdout);
  throw new Error(
    "this is no clone with git: set SOURCE_DATE_EPOCH to the time of the sources, in seconds",
  );
}

/** Calls `use` with a new folder, and removes it afterwards. */
export function withWorkFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-package-"));
  try {
    return use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes files into a folder. All of the folder gets one time, and modes that do not depend on the umask. */
export function stage(
  files: PackageFiles,
  to: { readonly folder: string; readonly date: number; readonly executables: readonly string[] },
): void {
  for (const [path, content] of Object.entries(files)) {
    const place = join(to.folder, path);
    mkdirSync(dirname(place), { recursive: true });
    if (typeof content === "string") copyFileSync(content, place);
    else writeFileSync(place, content);
    chmodSync(place, to.executables.includes(path) ? 0o755 : 0o644);
  }
  runTool(["chmod", "--recursive", "u=rwX,go=rX", to.folder]);
  runTool(["find", to.folder, "-exec", "touch", `--date=@${to.date}`, "{}", "+"]);
}

/** Packs files below one folder, `root`, into a `.tar.gz`, all owned by root, the same bytes each time. */
export function packFiles(
  files: PackageFiles,
  packing: Packing & {
    readonly archive: string;
    readonly root: string;
    readonly executable: string;
  },
): string {
  const { archive, root, date, executable, isQuick = false } = packing;
  return withWorkFolder((work) => {
    stage(files, { folder: join(work, root), date, executables: [executable] });
    const owner = ["--owner=0", "--group=0", "--numeric-owner"];
    const tar = join(work, "archive.tar");
    const to = ["--format=ustar", "--sort=name", `--file=${tar}`, `--directory=${work}`];
    runTool(["tar", "--create", ...owner, ...to, root]);
    // Level 9 takes three times as long, for half a percent.
    writeFileSync(archive, gzipSync(readFileSync(tar), { level: isQuick ? 1 : 6 }));
    return archive;
  });
}

/** Runs a program to its end, and returns its output. Throws if it fails, with all of its output. */
export function runTool(
  [file, ...args]: readonly [string, ...string[]],
  { cwd = ROOT, env = {} }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): string {
  const { status, stdout, stderr, error } = spawnSync(file, args, {
    cwd,
    env: { ...process.env, ...env },
    encoding: "utf8",
    maxBuffer: 64 * 1024 ** 2,
  });
  if (status === 0) return stdout;
  const reason = error === undefined ? `ended with ${status}: ${stdout}${stderr}` : error.message;
  throw new Error(`'${[file, ...args].join(" ")}' ${reason}`);
}

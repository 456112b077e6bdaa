import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  createReadStream,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";

import { ROOT } from "../manifest.ts";

export interface PackageFile {
  /** Where it lies in the package, without a leading slash. */
  readonly path: string;
  readonly content: Buffer | { readonly file: string };
  readonly isExecutable?: boolean;
}

/** The folder of packages, and how they are packed. */
export interface Packing {
  readonly folder: string;
  /** Seconds since the epoch, see `sourceDate`. */
  readonly date: number;
  /** Packed in a tenth of the time and larger: for tests. */
  readonly isQuick?: boolean;
}

/**
 * The time that everything in packages bears, in seconds since the epoch: `SOURCE_DATE_EPOCH`, else the commit's time.
 * So packages that are made again from the same commit are the same, byte for byte.
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

/** Lays files into a folder, all of them and their folders of one time and with modes that no umask changes. */
export function stage(files: readonly PackageFile[], folder: string, date: number): void {
  for (const { path, content, isExecutable = false } of files) {
    const place = join(folder, path);
    mkdirSync(dirname(place), { recursive: true });
    if (Buffer.isBuffer(content)) writeFileSync(place, content);
    else copyFileSync(content.file, place);
    chmodSync(place, isExecutable ? 0o755 : 0o644);
  }
  settle(folder, date);
}

/** Packs files below one folder, `root`, into a `.tar.gz`, all of root's, the same bytes each time. */
export async function packFiles(
  files: readonly PackageFile[],
  packing: Packing & { readonly archive: string; readonly root: string },
): Promise<void> {
  const { archive, root, date, isQuick = false } = packing;
  const work = mkdtempSync(join(tmpdir(), "postbackd-package-"));
  try {
    stage(
      files.map((file) => ({ ...file, path: join(root, file.path) })),
      work,
      date,
    );
    const owner = ["--owner=0", "--group=0", "--numeric-owner"];
    const tar = join(work, "archive.tar");
    runTool(["tar", "--create", "--format=ustar", "--sort=name", ...owner, `--file=${tar}`, root], {
      cwd: work,
    });
    // Level 9 takes three times as long, for half a percent.
    const gzip = createGzip({ level: isQuick ? 1 : 6 });
    await pipeline(createReadStream(tar), gzip, createWriteStream(archive));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function settle(folder: string, date: number): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const place = join(folder, entry.name);
    if (entry.isDirectory()) settle(place, date);
    else utimesSync(place, date, date);
  }
  chmodSync(folder, 0o755);
  utimesSync(folder, date, date);
}

/** Runs a program of this machine to its end, and answers what it printed. Throws when it fails, with what it said. */
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
  const reason = error === undefined ? `ended with ${status}: ${stderr}` : error.message;
  throw new Error(`'${[file, ...args].join(" ")}' ${reason}`);
}

import { createReadStream, createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";

import type { Platform } from "../executable.ts";
import { version } from "../manifest.ts";
import type { PackageParts } from "./parts.ts";
import { runTool, stage, type PackageFile } from "./staging.ts";

/** What a package is made of, and how. */
export interface PackageOrder {
  readonly platform: Platform;
  readonly executable: string;
  readonly parts: PackageParts;
  /** Where it is put. */
  readonly folder: string;
  /** Seconds since the epoch, see `sourceDate`. */
  readonly date: number;
  /** Packed in a tenth of the time and larger: for tests. */
  readonly isQuick?: boolean;
}

/** Makes `postbackd-VERSION-PLATFORM.tar.gz`; answers its path. */
export async function makeArchive(order: PackageOrder): Promise<string> {
  const { platform, folder, date, isQuick = false } = order;
  const name = `postbackd-${version}-${platform}`;
  const work = mkdtempSync(join(tmpdir(), "postbackd-package-"));
  try {
    const files = archiveFiles(order).map((file) => ({ ...file, path: join(name, file.path) }));
    stage(files, work, date);
    const owner = ["--owner=0", "--group=0", "--numeric-owner"];
    const tar = join(work, "archive.tar");
    runTool(["tar", "--create", "--format=ustar", "--sort=name", ...owner, `--file=${tar}`, name], {
      cwd: work,
    });
    const archive = join(folder, `${name}.tar.gz`);
    // Level 9 takes three times as long, for half a percent.
    const gzip = createGzip({ level: isQuick ? 1 : 6 });
    await pipeline(createReadStream(tar), gzip, createWriteStream(archive));
    return archive;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function archiveFiles({ executable, parts }: PackageOrder): readonly PackageFile[] {
  const { completion } = parts;
  return [
    { path: "postbackd", content: { file: executable }, isExecutable: true },
    { path: "LICENSE", content: parts.licence },
    { path: "THIRD-PARTY-NOTICES", content: parts.notices },
    { path: "README.md", content: parts.readme },
    { path: "CHANGELOG.md", content: parts.changelog },
    { path: "postbackd.toml", content: parts.sample },
    { path: "postbackd.service", content: parts.unit },
    { path: "man/postbackd.1", content: parts.manual },
    { path: "completion/postbackd.bash", content: completion.bash },
    { path: "completion/_postbackd", content: completion.zsh },
    { path: "completion/postbackd.fish", content: completion.fish },
  ];
}

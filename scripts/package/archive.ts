import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { type Platform, ROOT, version } from "../manifest.ts";
import { thirdPartyNotices } from "./contents.ts";
import { type PackageFile, type Packing, packFiles, runTool } from "./staging.ts";

/** What a package is made of, and how. */
export interface PackageOrder extends Packing {
  readonly platform: Platform;
  readonly executable: string;
  readonly parts: PackageParts;
}

/** Makes `postbackd-VERSION-PLATFORM.tar.gz`; answers its path. */
export async function makeArchive(order: PackageOrder): Promise<string> {
  const root = `postbackd-${version}-${order.platform}`;
  const archive = join(order.folder, `${root}.tar.gz`);
  await packFiles(archiveFiles(order), { ...order, archive, root });
  return archive;
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

/** What every package holds beside the executable, whatever the platform. */
export interface PackageParts {
  readonly licence: Buffer;
  readonly readme: Buffer;
  readonly changelog: Buffer;
  readonly notices: Buffer;
  readonly unit: Buffer;
  readonly manual: Buffer;
  /** The configuration with every setting commented out. */
  readonly sample: Buffer;
  readonly completion: Readonly<Record<"bash" | "zsh" | "fish", Buffer>>;
}

/** Collects them; `executable` is one that runs here, and prints some. */
export function packageParts(executable: string): PackageParts {
  const source = (...path: string[]) => readFileSync(join(ROOT, ...path));
  const printed = (...args: string[]) => Buffer.from(runTool([executable, ...args]));
  return {
    licence: source("LICENSE"),
    readme: source("README.md"),
    changelog: source("CHANGELOG.md"),
    notices: Buffer.from(thirdPartyNotices()),
    unit: source("deploy", "postbackd.service"),
    manual: printed("man"),
    sample: sampleOf(executable),
    completion: {
      bash: printed("completion", "bash"),
      zsh: printed("completion", "zsh"),
      fish: printed("completion", "fish"),
    },
  };
}

function sampleOf(executable: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-package-"));
  try {
    runTool([executable, "config", "init", "sample.toml"], { cwd: folder });
    return readFileSync(join(folder, "sample.toml"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes `SHA256SUMS` into the folder of the files, for `sha256sum --check`. */
export function writeSums(folder: string, files: readonly string[]): void {
  const lines = files.toSorted().map((file) => {
    const sum = createHash("sha256").update(readFileSync(file)).digest("hex");
    return `${sum}  ${basename(file)}\n`;
  });
  writeFileSync(join(folder, "SHA256SUMS"), lines.join(""));
}

import { join } from "node:path";

import { version } from "../manifest.ts";
import type { Platform } from "../platform.ts";
import type { PackageParts } from "./parts.ts";
import { packFiles, type PackageFile } from "./staging.ts";

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

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";

import { z } from "zod";

import { type Platform, ROOT, version } from "../manifest.ts";
import { thirdPartyNotices } from "./contents.ts";
import {
  type PackageFiles,
  type Packing,
  packFiles,
  runTool,
  stage,
  withWorkFolder,
} from "./staging.ts";

/** The content of a package for a platform, and how it is packed. */
export interface PackageOrder extends Packing {
  readonly platform: Platform;
  readonly executable: string;
  readonly parts: PackageParts;
  /** Another version of the Debian package, for the test of an upgrade. */
  readonly debVersion?: string;
  /** The maintainer of the Debian package, as `NAME <ADDRESS>`; see `givenMaintainer`. */
  readonly maintainer?: string | undefined;
}

/** The files of an archive without the executable, by path: they are the same on each platform. */
export type PackageParts = ReturnType<typeof packageParts>;

/** Collects the parts. `executable` must run on this machine: it prints some of them. */
export function packageParts(executable: string) {
  const source = (...path: string[]) => readFileSync(join(ROOT, ...path));
  const printed = (...args: string[]) => Buffer.from(runTool([executable, ...args]));
  const sample = withWorkFolder((cwd) => {
    runTool([executable, "config", "init", "sample.toml"], { cwd });
    return readFileSync(join(cwd, "sample.toml"));
  });
  return {
    LICENSE: source("LICENSE"),
    "THIRD-PARTY-NOTICES": Buffer.from(thirdPartyNotices()),
    "README.md": source("README.md"),
    "CHANGELOG.md": source("CHANGELOG.md"),
    /** The configuration with every setting commented out. */
    "postbackd.toml": sample,
    "postbackd.service": source("deploy", "postbackd.service"),
    "man/postbackd.1": printed("man"),
    "completion/postbackd.bash": printed("completion", "bash"),
    "completion/_postbackd": printed("completion", "zsh"),
    "completion/postbackd.fish": printed("completion", "fish"),
  };
}

/** Makes `postbackd-VERSION-PLATFORM.tar.gz`; returns its path. */
export function makeArchive(order: PackageOrder): string {
  const root = `postbackd-${version}-${order.platform}`;
  const archive = join(order.folder, `${root}.tar.gz`);
  const files = { postbackd: order.executable, ...order.parts };
  return packFiles(files, { ...order, archive, root, executable: "postbackd" });
}

const MANIFEST = z.looseObject({
  files: z.array(z.string()),
  bin: z.object({ postbackd: z.string() }),
});

/** The keys of package.json for work on the project: an installed package has nothing to install next to it. */
const NOT_PUBLISHED = ["private", "scripts", "dependencies", "devDependencies", "allowScripts"];

/**
 * Makes `postbackd-VERSION.tgz`, for `npm install` and `npm publish`; returns its path. Not by `npm pack`: the bytes
 * would depend on the version of npm.
 */
export function makeNpmPackage(order: Packing & { readonly notices: Buffer }): string {
  const all: object = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const { files, bin } = MANIFEST.parse(all);
  const kept = Object.entries(all).filter(([name]) => !NOT_PUBLISHED.includes(name));
  const notices = "THIRD-PARTY-NOTICES";
  const published = { ...Object.fromEntries(kept), files: [...files, notices] };
  const copied = ["README.md", "LICENSE", ...files.flatMap(filesAt)];
  const content = {
    "package.json": Buffer.from(`${JSON.stringify(published, null, 2)}\n`),
    [notices]: order.notices,
    ...Object.fromEntries(copied.map((path) => [path, join(ROOT, path)])),
  };
  const archive = join(order.folder, `postbackd-${version}.tgz`);
  return packFiles(content, { ...order, archive, root: "package", executable: bin.postbackd });
}

/** The file at this place, or all below the folder at it. */
function filesAt(path: string): readonly string[] {
  if (!statSync(join(ROOT, path)).isDirectory()) return [path];
  return readdirSync(join(ROOT, path)).flatMap((name) => filesAt(join(path, name)));
}

/** The names of the platforms at Debian. */
const ARCHITECTURES: Readonly<Record<Platform, string>> = {
  "linux-x64": "amd64",
  "linux-arm64": "arm64",
};

const DEBIAN = join(ROOT, "deploy", "debian");
const DEBIAN_SCRIPTS = ["preinst", "postinst", "prerm", "postrm"];

/** Without a maintainer: an address that leads nowhere else. */
const NO_MAINTAINER = "postbackd <postbackd@localhost>";

/** The maintainer that `DEBFULLNAME` and `DEBEMAIL` name, as for Debian's own tools; undefined without them. */
export function givenMaintainer(): string | undefined {
  const { DEBFULLNAME: name, DEBEMAIL: address } = process.env;
  return name && address ? `${name} <${address}>` : undefined;
}

/** Makes `postbackd_VERSION_ARCHITECTURE.deb`; returns its path. */
export function makeDeb(order: PackageOrder): string {
  const { platform, date, isQuick = false, debVersion = version } = order;
  const architecture = ARCHITECTURES[platform];
  const deb = join(order.folder, `postbackd_${debVersion}_${architecture}.deb`);
  return withWorkFolder((cwd) => {
    const to = { folder: cwd, date };
    stage(installedFiles(order), { ...to, executables: ["usr/bin/postbackd"] });
    const shell = (command: string) =>
      runTool(["sh", "-c", command], { cwd, env: { LC_ALL: "C" } });
    // dpkg has sums of its own for the operator's files.
    const sums = shell("find usr -type f | sort | xargs md5sum");
    const kilobytes = "awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }'";
    const facts: Readonly<Record<string, string>> = {
      VERSION: debVersion,
      ARCHITECTURE: architecture,
      SIZE: shell(`find . -type f -printf '%s\\n' | ${kilobytes}`).trim(),
      MAINTAINER: order.maintainer ?? NO_MAINTAINER,
    };
    const control = debianText("control").replaceAll(
      /@(\w+)@/g,
      (_, key: string) => facts[key] ?? "",
    );
    const texts = Object.fromEntries(
      ["conffiles", ...DEBIAN_SCRIPTS].map((name) => [name, debianText(name)]),
    );
    const files = Object.entries({ ...texts, control, md5sums: sums }).map(([name, text]) => {
      return [`DEBIAN/${name}`, Buffer.from(text)];
    });
    const executables = ["usr/bin/postbackd", ...DEBIAN_SCRIPTS.map((name) => `DEBIAN/${name}`)];
    stage(Object.fromEntries(files), { ...to, executables });
    const packing = isQuick ? ["-Zgzip", "-z1"] : ["-Zxz"];
    runTool(["dpkg-deb", "--root-owner-group", ...packing, "--build", cwd, deb], {
      env: { SOURCE_DATE_EPOCH: String(date) },
    });
    return deb;
  });
}

function installedFiles({ executable, parts, ...order }: PackageOrder): PackageFiles {
  const { debVersion = version, maintainer = NO_MAINTAINER, date } = order;
  const unit = parts["postbackd.service"].toString();
  const sample = parts["postbackd.toml"].toString();
  const database = "/var/lib/postbackd/postbackd.db";
  const licence = parts.LICENSE.toString().trim().split("\n");
  const indented = licence.map((line) => (line.trim() === "" ? " ." : ` ${line}`)).join("\n");
  const when = new Date(date * 1000).toUTCString().replace("GMT", "+0000");
  const changelog =
    `postbackd (${debVersion}) stable; urgency=medium\n\n` +
    `  * See CHANGELOG.md.gz.\n\n -- ${maintainer}  ${when}\n`;
  const doc = "usr/share/doc/postbackd";
  return {
    "usr/bin/postbackd": executable,
    "usr/lib/systemd/system/postbackd.service": replaced(
      unit,
      "/usr/local/bin/postbackd",
      "/usr/bin/postbackd",
    ),
    "etc/postbackd/postbackd.toml": replaced(
      sample,
      '#database = "./postbackd.db"',
      `database = "${database}"`,
    ),
    "usr/share/bash-completion/completions/postbackd": parts["completion/postbackd.bash"],
    "usr/share/zsh/vendor-completions/_postbackd": parts["completion/_postbackd"],
    "usr/share/fish/vendor_completions.d/postbackd.fish": parts["completion/postbackd.fish"],
    "usr/share/man/man1/postbackd.1.gz": packed(parts["man/postbackd.1"]),
    // The findings of lintian that do not apply, with the reason.
    "usr/share/lintian/overrides/postbackd": Buffer.from(debianText("lintian-overrides")),
    [`${doc}/copyright`]: replaced(debianText("copyright"), "@LICENSE@", indented),
    [`${doc}/changelog.gz`]: packed(changelog),
    [`${doc}/CHANGELOG.md.gz`]: packed(parts["CHANGELOG.md"]),
    [`${doc}/README.md.gz`]: packed(parts["README.md"]),
    [`${doc}/THIRD-PARTY-NOTICES.gz`]: packed(parts["THIRD-PARTY-NOTICES"]),
  };
}

function debianText(name: string): string {
  return readFileSync(join(DEBIAN, name), "utf8");
}

/** Node writes no time into it, so it is the same each time. */
function packed(text: Buffer | string): Buffer {
  return gzipSync(text, { level: 9 });
}

function replaced(text: string, from: string, to: string): Buffer {
  if (!text.includes(from)) throw new Error(`what is packaged has no '${from}'`);
  return Buffer.from(text.replaceAll(from, () => to));
}

/** Writes `SHA256SUMS` into the folder of the files, for `sha256sum --check`. */
export function writeSums(folder: string, files: readonly string[]): void {
  const lines = files.toSorted().map((file) => {
    const sum = createHash("sha256").update(readFileSync(file)).digest("hex");
    return `${sum}  ${basename(file)}\n`;
  });
  writeFileSync(join(folder, "SHA256SUMS"), lines.join(""));
}

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { sumOf } from "../kit/measure.ts";
import { type Platform, ROOT, version } from "../manifest.ts";
import { type PackageOrder, type PackageParts } from "./archive.ts";
import { type PackageFile, runTool, stage } from "./staging.ts";

const DEBIAN = join(ROOT, "deploy", "debian");
const DOC = "usr/share/doc/postbackd";

/** What Debian calls the platforms. */
const ARCHITECTURES: Readonly<Record<Platform, string>> = {
  "linux-x64": "amd64",
  "linux-arm64": "arm64",
};

export interface DebOrder extends PackageOrder {
  /** Another version, for the test of an upgrade. */
  readonly debVersion?: string;
  /** Who answers for it, as `NAME <ADDRESS>`; see `givenMaintainer`. */
  readonly maintainer?: string | undefined;
}

/** Where nobody is named: an address that leads nowhere else. */
const NO_MAINTAINER = "postbackd <postbackd@localhost>";

/** Who builds packages says it as Debian's own tools are told, by `DEBFULLNAME` and `DEBEMAIL`; undefined without them. */
export function givenMaintainer(): string | undefined {
  const { DEBFULLNAME: name, DEBEMAIL: address } = process.env;
  return name && address ? `${name} <${address}>` : undefined;
}

/** Makes `postbackd_VERSION_ARCHITECTURE.deb`; answers its path. */
export function makeDeb(order: DebOrder): string {
  const { platform, folder, date, isQuick = false } = order;
  const { debVersion = version, maintainer = NO_MAINTAINER } = order;
  const architecture = ARCHITECTURES[platform];
  const deb = join(folder, `postbackd_${debVersion}_${architecture}.deb`);
  const work = mkdtempSync(join(tmpdir(), "postbackd-package-"));
  try {
    stage(installedFiles(order), work, date);
    // dpkg has sums of its own for the operator's files.
    const [cwd, env] = [work, { LC_ALL: "C" }];
    const sums = runTool(["sh", "-c", "find usr -type f | sort | xargs md5sum"], { cwd, env });
    const sizes = runTool(["find", ".", "-type", "f", "-printf", "%s\n"], { cwd });
    const size = String(
      sumOf(
        sizes
          .trim()
          .split("\n")
          .map((bytes) => Math.ceil(Number(bytes) / 1024)),
      ),
    );
    const facts = {
      VERSION: debVersion,
      ARCHITECTURE: architecture,
      SIZE: size,
      MAINTAINER: maintainer,
    };
    stage(controlFiles(sums, facts), work, date);
    const packing = isQuick ? ["-Zgzip", "-z1"] : ["-Zxz"];
    runTool(["dpkg-deb", "--root-owner-group", ...packing, "--build", work, deb], {
      env: { SOURCE_DATE_EPOCH: String(date) },
    });
    return deb;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function installedFiles(order: DebOrder): readonly PackageFile[] {
  const { executable, parts } = order;
  const share = "usr/share";
  const { completion } = parts;
  return [
    { path: "usr/bin/postbackd", content: { file: executable }, isExecutable: true },
    { path: "usr/lib/systemd/system/postbackd.service", content: unitOf(parts) },
    { path: "etc/postbackd/postbackd.toml", content: configurationOf(parts) },
    { path: `${share}/bash-completion/completions/postbackd`, content: completion.bash },
    { path: `${share}/zsh/vendor-completions/_postbackd`, content: completion.zsh },
    { path: `${share}/fish/vendor_completions.d/postbackd.fish`, content: completion.fish },
    { path: `${share}/man/man1/postbackd.1.gz`, content: packed(parts.manual) },
    { path: `${share}/lintian/overrides/postbackd`, content: lintianOverrides() },
    { path: `${DOC}/copyright`, content: copyright(parts) },
    { path: `${DOC}/changelog.gz`, content: packed(debianChangelog(order)) },
    { path: `${DOC}/CHANGELOG.md.gz`, content: packed(parts.changelog) },
    { path: `${DOC}/README.md.gz`, content: packed(parts.readme) },
    { path: `${DOC}/THIRD-PARTY-NOTICES.gz`, content: packed(parts.notices) },
  ];
}

/** What dpkg reads: the facts, which files are the operator's, sums, and the scripts that it runs. */
function controlFiles(
  sums: string,
  facts: Readonly<Record<string, string>>,
): readonly PackageFile[] {
  const text = (name: string) => readFileSync(join(DEBIAN, name), "utf8");
  const control = text("control").replaceAll(/@(\w+)@/g, (_, name: string) => facts[name] ?? "");
  return [
    { path: "DEBIAN/control", content: Buffer.from(control) },
    { path: "DEBIAN/conffiles", content: Buffer.from(text("conffiles")) },
    { path: "DEBIAN/md5sums", content: Buffer.from(sums) },
    ...["preinst", "postinst", "prerm", "postrm"].map((name) => {
      return { path: `DEBIAN/${name}`, content: Buffer.from(text(name)), isExecutable: true };
    }),
  ];
}

/** Node writes no time into it, so it is the same each time. */
function packed(text: Buffer): Buffer {
  return gzipSync(text, { level: 9 });
}

function unitOf({ unit }: PackageParts): Buffer {
  return replaced(unit, "/usr/local/bin/postbackd", "/usr/bin/postbackd");
}

function configurationOf({ sample }: PackageParts): Buffer {
  return replaced(
    sample,
    '#database = "./postbackd.db"',
    'database = "/var/lib/postbackd/postbackd.db"',
  );
}

function replaced(text: Buffer, from: string, to: string): Buffer {
  const before = text.toString();
  if (!before.includes(from)) throw new Error(`what is packaged has no '${from}'`);
  return Buffer.from(before.replaceAll(from, () => to));
}

/** Its findings that are not ours to mend, with the reason. */
function lintianOverrides(): Buffer {
  return readFileSync(join(DEBIAN, "lintian-overrides"));
}

function copyright({ licence }: PackageParts): Buffer {
  const lines = licence.toString().trim().split("\n");
  const indented = lines.map((line) => (line.trim() === "" ? " ." : ` ${line}`)).join("\n");
  return replaced(readFileSync(join(DEBIAN, "copyright")), "@LICENSE@", indented);
}

function debianChangelog(order: DebOrder): Buffer {
  const { debVersion = version, maintainer = NO_MAINTAINER, date } = order;
  const when = new Date(date * 1000).toUTCString().replace("GMT", "+0000");
  return Buffer.from(
    `postbackd (${debVersion}) stable; urgency=medium\n\n` +
      `  * See CHANGELOG.md.gz.\n\n -- ${maintainer}  ${when}\n`,
  );
}

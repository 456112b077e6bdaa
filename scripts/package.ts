import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { buildExecutable } from "./executable.ts";
import {
  PLATFORMS,
  type Platform,
  ROOT,
  hostPlatform,
  requirePinnedNode,
  version,
} from "./manifest.ts";
import { billOfMaterials } from "./package/contents.ts";
import { fetchNode } from "./package/node.ts";
import {
  givenMaintainer,
  makeArchive,
  makeDeb,
  makeNpmPackage,
  packageParts,
  writeSums,
} from "./package/packages.ts";
import { sourceDate } from "./package/staging.ts";

/**
 * Makes what is published, in `dist/packages/`: an archive and a Debian package for each platform, npm's package, what
 * they are made of (SBOM), and the checksums of all of it. `npm run build` must have been before: `npm run package` does both.
 * For tests `--folder` puts all of it elsewhere, and `--quick` packs it in a tenth of the time.
 */

const DIST = join(ROOT, "dist");

const { values: flags } = parseArgs({
  options: { folder: { type: "string" }, quick: { type: "boolean", default: false } },
});
const FOLDER = resolve(flags.folder ?? join(DIST, "packages"));

requirePinnedNode();
const host = hostPlatform();
const hostExecutable = join(DIST, "postbackd");
if (!existsSync(hostExecutable))
  throw new Error("there is no dist/postbackd: run 'npm run package'");

const packing = { folder: FOLDER, date: sourceDate(), isQuick: flags.quick };
rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
const parts = packageParts(hostExecutable);
const maintainer = givenMaintainer();
const made: string[] = [];
for (const platform of PLATFORMS) {
  const executable = await executableFor(platform);
  const order = { ...packing, platform, executable, parts, maintainer };
  made.push(makeArchive(order), makeDeb(order));
}
made.push(makeNpmPackage({ ...packing, notices: parts["THIRD-PARTY-NOTICES"] }));
const bill = join(FOLDER, `postbackd-${version}.cdx.json`);
writeFileSync(bill, billOfMaterials(packing.date));
made.push(bill);
writeSums(FOLDER, made);
for (const file of made) {
  process.stdout.write(
    `${(statSync(file).size / 1e6).toFixed(1).padStart(6)} MB  ${basename(file)}\n`,
  );
}
if (maintainer === undefined)
  process.stdout.write("The Debian packages name no maintainer: set DEBFULLNAME and DEBEMAIL.\n");

async function executableFor(platform: Platform): Promise<string> {
  if (platform === host) return hostExecutable;
  const output = join(DIST, ".build", `postbackd-${platform}`);
  await buildExecutable({ platform, node: fetchNode(platform), output });
  return output;
}

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, after } from "node:test";

import { ROOT, hostPlatform, version } from "../../scripts/manifest.ts";
import { type PackageOrder, makeNpmPackage, packageParts } from "../../scripts/package/packages.ts";
import { BINARY } from "../dist/binary.ts";
import { temporaryFolder } from "../helpers/program.ts";

/** Packages for the platform of the tests, in a folder that is removed after the file's tests. */
export function testOrder(): PackageOrder {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return {
    platform: hostPlatform(),
    executable: BINARY,
    parts: packageParts(BINARY),
    folder,
    // Any time will do, and the tests may run where there is no git.
    date: 1_790_000_000,
    isQuick: true,
  };
}

/** Makes npm's package of what was built, in a folder that is removed after the file's tests; answers its path. */
export function testPackage(): string {
  const built = join(ROOT, "dist", "daemon");
  assert.ok(existsSync(built), `There is no ${built}: run 'npm run build' first.`);
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  // Any time and any notices will do.
  const notices = Buffer.from("notices");
  makeNpmPackage({ notices, folder, date: 1_790_000_000, isQuick: true });
  return join(folder, `postbackd-${version}.tgz`);
}

/** A folder with the package in node_modules and nothing else there, as every package manager lays it out. */
export function folderWith(t: TestContext, archive: string): string {
  const folder = temporaryFolder(t);
  const home = join(folder, "node_modules", "postbackd");
  mkdirSync(home, { recursive: true });
  const args = ["-xzf", archive, "-C", home, "--strip-components=1"];
  const { status, stderr } = spawnSync("tar", args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return folder;
}

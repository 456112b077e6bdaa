import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

import { hostPlatform } from "../../scripts/manifest.ts";
import { packageParts, type PackageOrder } from "../../scripts/package/packages.ts";
import { BINARY } from "../dist/binary.ts";

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

/** True where a program of this name can be run. */
export function hasProgram(name: string): boolean {
  return spawnSync(name, ["--version"]).error === undefined;
}

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";

/**
 * Runtimes, a compiler, a test runner and web frameworks of npm that are too large for everybody: 600 MB, in half a
 * minute. The runtimes are packages for x64 Linux without install scripts, so that nothing comes from elsewhere than
 * the registry.
 */
const CACHE = join(ROOT, "node_modules", ".cache", "runtimes");
const FILES = ["package.json", "package-lock.json"] as const;

const HERE = import.meta.dirname;
const HOW_TO_GET_THEM = "not installed: POSTBACKD_TEST_PEERS=required has npm install them";

/**
 * The path of a file of these packages. Where they are not installed they are, if the environment promises them with
 * POSTBACKD_TEST_PEERS=required; else the test is skipped, and null is answered.
 */
export function findRuntime(t: TestContext, file: string): string | null {
  if (process.platform !== "linux" || process.arch !== "x64") {
    t.skip(`only for x64 Linux: ${file}`);
    return null;
  }
  if (!isInstalled()) {
    if (process.env["POSTBACKD_TEST_PEERS"] !== "required") {
      t.skip(HOW_TO_GET_THEM);
      return null;
    }
    install();
  }
  return join(CACHE, "node_modules", file);
}

function isInstalled(): boolean {
  const there = join(CACHE, "package-lock.json");
  if (!existsSync(there)) return false;
  return readFileSync(there).equals(readFileSync(join(HERE, "package-lock.json")));
}

/** Beside its place and then moved there: an installation that was broken off is none. */
function install(): void {
  const folder = `${CACHE}-${process.pid}`;
  mkdirSync(folder, { recursive: true });
  for (const file of FILES) cpSync(join(HERE, file), join(folder, file));
  const args = ["ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
  const { status, stderr } = spawnSync("npm", args, { cwd: folder, encoding: "utf8" });
  assert.equal(status, 0, stderr);
  rmSync(CACHE, { recursive: true, force: true });
  renameSync(folder, CACHE);
}

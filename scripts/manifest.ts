import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The parts of `package.json` that the scripts read. */
export interface PackageManifest {
  readonly version: string;
  /** The Node version that everything runs on and that the executable is made of, in three parts. */
  readonly nodeVersion: string;
}

/** Reads `package.json` in `root`. */
export function packageManifest(root: string): PackageManifest {
  const manifest: unknown = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return {
    version: textAt(manifest, ["version"]),
    nodeVersion: textAt(manifest, ["devDependencies", "node"]),
  };
}

function textAt(document: unknown, path: readonly string[]): string {
  let value = document;
  for (const name of path) {
    value = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
  }
  if (typeof value !== "string") throw new Error(`package.json has no text at ${path.join(".")}`);
  return value;
}

/**
 * Ends the process when it does not run on the pinned Node: on another one the tests would prove
 * nothing of the program that ships.
 */
export function requirePinnedNode(root: string): void {
  const { nodeVersion } = packageManifest(root);
  if (process.versions.node === nodeVersion) return;

  process.stderr.write(
    `postbackd is built and tested on Node ${nodeVersion}, and this is ${process.versions.node}. ` +
      "The npm package 'node' brings it: its install script did not run, or this was not started by " +
      "npm. Run 'npm ci' with scripts allowed (or 'npm rebuild node'), then 'npm run …' again.\n",
  );
  process.exit(1);
}

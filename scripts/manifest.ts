import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { z } from "zod";

/** The project's folder. */
export const ROOT = dirname(import.meta.dirname);

const manifest = z.object({
  version: z.string(),
  devDependencies: z.object({ node: z.string() }),
});

/**
 * Of `package.json`: the version, and the Node that everything runs on and the executable is made of, in three parts.
 */
export const {
  version,
  devDependencies: { node: nodeVersion },
} = manifest.parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));

/**
 * Ends the process when it does not run on the pinned Node: on another one the tests would prove
 * nothing of the program that ships.
 */
export function requirePinnedNode(): void {
  if (process.versions.node === nodeVersion) return;

  process.stderr.write(
    `postbackd is built and tested on Node ${nodeVersion}, and this is ${process.versions.node}. ` +
      "The npm package 'node' brings it: its install script did not run, or this was not started by " +
      "npm. Run 'npm ci' with scripts allowed (or 'npm rebuild node'), then 'npm run …' again.\n",
  );
  process.exit(1);
}

/** The platforms that an executable is made for. */
export const PLATFORMS = ["linux-x64", "linux-arm64"] as const;
export type Platform = (typeof PLATFORMS)[number];

/** The platform this runs on. Throws where no executable is made for it. */
export function hostPlatform(): Platform {
  const host = `${process.platform}-${process.arch}`;
  const known = PLATFORMS.find((name) => name === host);
  if (known !== undefined) return known;
  throw new Error(`no executable is made for ${host}: only for ${PLATFORMS.join(" and ")}`);
}

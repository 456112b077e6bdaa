import { readFileSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

import { ROOT } from "../manifest.ts";

const LOCK = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      license: z.string().optional(),
      dev: z.boolean().optional(),
    }),
  ),
});

/** A package of npm that is in the executable, as `package-lock.json` pins it. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** An SPDX expression; `unknown` where the lock has none. */
  readonly license: string;
  /** Where it is installed. */
  readonly folder: string;
}

/** Of the tools of development, what gets into the executable: the dashboard's libraries. */
const BUILT_IN = ["preact", "@preact/signals", "@preact/signals-core"];

const NODE_MODULES = "node_modules/";

/** What the lock says is installed with the program, and what the build puts in beside; in the order of names. */
export function npmComponents(): readonly Component[] {
  const text = readFileSync(join(ROOT, "package-lock.json"), "utf8");
  return Object.entries(LOCK.parse(JSON.parse(text)).packages)
    .filter(([path]) => path !== "")
    .map(([path, { version = "", license = "unknown", dev = false }]) => {
      const name = path.slice(path.lastIndexOf(NODE_MODULES) + NODE_MODULES.length);
      return { name, version, license, folder: join(ROOT, path), dev };
    })
    .filter(({ name, dev }) => !dev || BUILT_IN.includes(name))
    .map(({ name, version, license, folder }) => ({ name, version, license, folder }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The licence of the pinned Node, with those of all that it holds itself. */
export function nodeLicence(): string {
  // Its install script puts the package of the platform below it.
  const platform = `node-${process.platform}-${process.arch}`;
  const folder = join(ROOT, "node_modules", "node", "node_modules", platform);
  return readFileSync(join(folder, "LICENSE"), "utf8");
}

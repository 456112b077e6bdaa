import { join } from "node:path";
import { pathToFileURL } from "node:url";

import type { BuildOptions } from "esbuild";

import { ROOT } from "./manifest.ts";

// Of the sources' assets; it serves those of `scripts` as well, because both folders are beside each other.
const ASSETS_URL = pathToFileURL(join(ROOT, "src", "assets.ts")).href;

/** How a program is bundled that tests start, from a folder below node_modules: the addon is found there. */
export const TEST_BUNDLE = {
  bundle: true,
  platform: "node",
  target: "node24",
  format: "cjs",
  external: ["better-sqlite3"],
  define: { "import.meta.url": JSON.stringify(ASSETS_URL) },
  logLevel: "warning",
} satisfies BuildOptions;

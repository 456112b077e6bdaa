import { join } from "node:path";

import { assetsFrom, bundleForTests, HELPERS } from "./bundle.ts";
import { ROOT } from "./manifest.ts";

/**
 * Bundles what tests start as processes and as threads, a file each, because a thread reads all of its file. From the
 * sources each start would look up and load a hundred modules and more. Measured in processor time: a writer thread
 * takes 60 ms instead of 85, a daemon 380 instead of 550, a command 100 instead of 150, and a run has hundreds of each.
 */

await bundleForTests({
  entryPoints: ["main.ts", ...Object.values(HELPERS)].map((file) => join(ROOT, "src", file)),
  entryNames: "[name]",
  outdir: join(ROOT, "node_modules", ".cache", "program"),
  outExtension: { ".js": ".cjs" },
  plugins: [assetsFrom("test-assets.ts")],
});

import { dirname, join } from "node:path";

import { buildDashboard } from "./dashboard-bundle.ts";

/** Builds what browsers are given into `dist/dashboard`, where the program reads it in development. */

const ROOT = dirname(import.meta.dirname);

const { scriptBytes, styleBytes } = await buildDashboard({
  root: ROOT,
  outFolder: join(ROOT, "dist", "dashboard"),
});
process.stdout.write(
  `dist/dashboard: ${kilobytes(scriptBytes)} KB of script, ${kilobytes(styleBytes)} KB of style\n`,
);

function kilobytes(bytes: number): string {
  return (bytes / 1000).toFixed(1);
}

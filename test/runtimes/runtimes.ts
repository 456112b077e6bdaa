import { join } from "node:path";
import type { TestContext } from "node:test";

import { NpmPackages } from "../../scripts/kit/npm-packages.ts";

/**
 * Runtimes, a compiler, a test runner and web frameworks of npm that are too large for everybody: 600 MB, in half a
 * minute. The runtimes are packages for x64 Linux without install scripts, so that nothing comes from elsewhere than
 * the registry.
 */
const RUNTIMES = new NpmPackages(import.meta.dirname);

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
  if (!RUNTIMES.isInstalled) {
    if (process.env["POSTBACKD_TEST_PEERS"] !== "required") {
      t.skip(HOW_TO_GET_THEM);
      return null;
    }
    RUNTIMES.install();
  }
  return join(RUNTIMES.folder, "node_modules", file);
}

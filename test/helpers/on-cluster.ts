import { createRequire, syncBuiltinESMExports } from "node:module";
import type { test } from "node:test";

// Keeps the runner's own `test`, so it must be imported before the line that replaces it.
import "./cluster-test.ts";

/**
 * Runs the cluster tests of test files, which are named by their place below test/, on a cluster of three. Their other
 * tests do not run.
 */
export async function testOnCluster(files: readonly string[]): Promise<void> {
  const runner: { test: typeof test } = createRequire(import.meta.url)("node:test");
  runner.test = Object.assign(() => Promise.resolve(), runner.test);
  syncBuiltinESMExports();
  // Imported now, because modules that were imported before keep the runner's own `test`.
  const { serveByCluster } = await import("./daemon-cluster.ts");
  const { serveTestsBy } = await import("./daemon.ts");
  serveTestsBy(serveByCluster);
  for (const file of files) await import(new URL(`../${file}`, import.meta.url).href);
}

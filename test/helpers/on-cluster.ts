import { createRequire, syncBuiltinESMExports } from "node:module";
import type { test } from "node:test";

import { NOT_ON_CLUSTER } from "./not-on-cluster.ts";

type Test = typeof test;

/**
 * Runs test files, named by their place below test/, with a cluster of three wherever they start a daemon. Those of
 * {@link NOT_ON_CLUSTER} are skipped with its reason; rejects where that names one that is not there.
 */
export async function testOnCluster(files: readonly string[]): Promise<void> {
  const skipped = new SkippedTests();
  // Not before: modules that have imported the runner's functions keep those.
  const { serveByCluster } = await import("./daemon-cluster.ts");
  const { serveTestsBy } = await import("./daemon.ts");
  serveTestsBy(serveByCluster);
  for (const file of files) {
    skipped.begin(reasonsOf(file));
    await import(new URL(`../${file}`, import.meta.url).href);
    const unknown = skipped.unseen;
    if (unknown.length > 0) throw new Error(`${file} has no test '${unknown.join("', '")}'`);
  }
}

/** Takes the place of the runner's `test`, in all modules that are imported from then on. */
class SkippedTests {
  #reasons: Reasons = { ofAll: null, byName: new Map() };
  readonly #seen = new Set<string>();

  constructor() {
    // Its properties are what modules import.
    const runner: { test: Test } = createRequire(import.meta.url)("node:test");
    const original = runner.test;
    const wrapped = (...args: readonly unknown[]): unknown => {
      const [name] = args;
      const { ofAll, byName } = this.#reasons;
      const reason = ofAll ?? byName.get(String(name));
      if (reason === undefined) return Reflect.apply(original, null, args);
      this.#seen.add(String(name));
      return original(String(name), { skip: reason });
    };
    runner.test = Object.assign(wrapped, original) as Test;
    syncBuiltinESMExports();
  }

  /** From now on tests of these names are skipped, and say why. */
  begin(reasons: Reasons): void {
    this.#reasons = reasons;
    this.#seen.clear();
  }

  /** Those of them that were not there. */
  get unseen(): readonly string[] {
    return [...this.#reasons.byName.keys()].filter((name) => !this.#seen.has(name));
  }
}

/** Why tests of a file are skipped. */
interface Reasons {
  readonly ofAll: string | null;
  readonly byName: ReadonlyMap<string, string>;
}

function reasonsOf(file: string): Reasons {
  const whole = NOT_ON_CLUSTER.find(({ tests }) => tests[file] === "all");
  const byName = NOT_ON_CLUSTER.flatMap(({ reason, tests }) => {
    const names = tests[file] ?? [];
    return names === "all" ? [] : names.map((name) => [name, reason] as const);
  });
  return { ofAll: whole?.reason ?? null, byName: new Map(byName) };
}

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

import type { Plugin } from "esbuild";

import { bundleForTests } from "../../scripts/bundle.ts";
import type { Program } from "../../scripts/kit/daemon.ts";
import { ROOT } from "../../scripts/manifest.ts";
import { afterwards } from "../helpers/afterwards.ts";

// From there it finds the packages that are not bundled.
const PLACE = join(ROOT, "node_modules", ".cache");

/** A copy of the program with something in it changed, gone after the test. */
export async function newChangedProgram(
  t: TestContext,
  { name, change }: { readonly name: string; readonly change: Plugin },
): Promise<Program> {
  mkdirSync(PLACE, { recursive: true });
  const folder = mkdtempSync(join(PLACE, "changed-program-"));
  afterwards(t, () => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, "main.cjs");
  const entryPoints = [join(ROOT, "src", "main.ts")];
  await bundleForTests({ entryPoints, outfile, plugins: [change] });
  return { name, command: [process.execPath, outfile] };
}

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { ROOT } from "../../scripts/manifest.ts";

const BENCH = ["--import", "tsx", join(ROOT, "scripts", "bench.ts"), "starts", "--starts", "1"];

/** The rows of the table that it prints, each without what was measured. */
async function rowsOf(...flags: readonly string[]): Promise<readonly string[]> {
  const args = [...BENCH, "--program", "source", ...flags];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  return [...stdout.matchAll(/^\| (postbackd[^|]*?) *\| +\d/gm)].map(([, name = ""]) => name);
}

test("starts of dev and of start are measured, and on a full file where that is asked for", async () => {
  const empty = ["postbackd dev", "postbackd start"];
  assert.deepEqual(await rowsOf(), empty);
  assert.deepEqual(await rowsOf("--tasks", "200"), [...empty, "postbackd start, 200 tasks"]);
});

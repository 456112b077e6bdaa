import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { PROGRAMS, type ProgramAssets } from "../../scripts/program-assets.ts";
import { emptyPlace, runBinary } from "./binary.ts";

// V8 compares version, flags and length, and compiles the whole program again if one of them differs.
const probe = ({ source, cache }: ProgramAssets) => `
  const { getRawAsset } = require("node:sea");
  const read = (name) => Buffer.from(getRawAsset(name));
  const source = read("${source}").toString("latin1");
  const options = { cachedData: read("${cache}") };
  const { cachedDataRejected } = new (require("node:vm").Script)(source, options);
  process.stdout.write(String(cachedDataRejected));
  process.exit();`;

/** Compiles a program of the executable in the executable itself. */
async function isRejected(
  t: TestContext,
  { program, flags }: { readonly program: ProgramAssets; readonly flags: string },
): Promise<string> {
  const place = emptyPlace(t);
  const file = join(place.home, "probe.cjs");
  writeFileSync(file, probe(program));
  const env = { NODE_OPTIONS: `${flags} --require=${file}` };
  const { stdout, stderr } = await runBinary(t, ["--version"], { ...place, env });
  assert.equal(stderr, "");
  return stdout;
}

for (const program of PROGRAMS) {
  test(`the executable takes the compiled code of ${program.source} and not with other flags`, async (t) => {
    assert.equal(await isRejected(t, { program, flags: "" }), "false");
    // A flag that V8 compares.
    const flags = "--interpreted-frames-native-stack";
    assert.equal(await isRejected(t, { program, flags }), "true");
  });
}

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { hostPlatform } from "../../scripts/platform.ts";
import { PROGRAMS, type ProgramAssets } from "../../scripts/program-assets.ts";
import { BINARY } from "./binary.ts";

const PARTS = join(dirname(BINARY), ".build", hostPlatform());

// V8 compares version, flags and length, and compiles all anew where one of them is another.
const LOOK = `
  const { readFileSync } = require("node:fs");
  const [sourceFile, cacheFile] = process.argv.slice(1);
  const source = readFileSync(sourceFile, "latin1");
  const cachedData = readFileSync(cacheFile);
  const { cachedDataRejected } = new (require("node:vm").Script)(source, { cachedData });
  process.stdout.write(String(cachedDataRejected));`;

function isRejected({ source, cache }: ProgramAssets, flags: readonly string[]): string {
  const args = [...flags, "-e", LOOK, source, cache];
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: PARTS,
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  return stdout;
}

for (const program of PROGRAMS) {
  test(`V8 takes what was compiled of ${program.source} when the executable was made, with its flags`, () => {
    const { execArgv } = JSON.parse(readFileSync(join(PARTS, "program.json"), "utf8")) as {
      execArgv: readonly string[];
    };
    assert.equal(isRejected(program, execArgv), "false");
    // One that counts for V8.
    assert.equal(isRejected(program, [...execArgv, "--semi-space-growth-factor=4"]), "true");
  });
}

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";

import { hostPlatform } from "../../scripts/platform.ts";
import { CACHE_ASSET, PROGRAM_ASSET } from "../../scripts/program-assets.ts";
import { BINARY } from "./binary.ts";

const PARTS = join(dirname(BINARY), ".build", hostPlatform());

// V8 compares version, flags and length, and compiles all anew where one of them is another.
const LOOK = `
  const { readFileSync } = require("node:fs");
  const source = readFileSync(${JSON.stringify(PROGRAM_ASSET)}, "latin1");
  const cachedData = readFileSync(${JSON.stringify(CACHE_ASSET)});
  const { cachedDataRejected } = new (require("node:vm").Script)(source, { cachedData });
  process.stdout.write(String(cachedDataRejected));`;

function isRejected(flags: readonly string[]): string {
  const { stdout, stderr } = spawnSync(process.execPath, [...flags, "-e", LOOK], {
    cwd: PARTS,
    encoding: "utf8",
  });
  assert.equal(stderr, "");
  return stdout;
}

test("V8 takes what was compiled when the executable was made, with the flags of the executable", () => {
  const { execArgv } = JSON.parse(readFileSync(join(PARTS, "program.json"), "utf8")) as {
    execArgv: readonly string[];
  };
  assert.equal(isRejected(execArgv), "false");
  // One that counts for V8.
  assert.equal(isRejected([...execArgv, "--semi-space-growth-factor=4"]), "true");
});

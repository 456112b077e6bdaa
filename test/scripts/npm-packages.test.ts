import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { NpmPackages } from "../../scripts/kit/npm-packages.ts";
import { afterwards } from "../helpers/afterwards.ts";
import { temporaryFolder } from "../helpers/program.ts";

const MODULE = new URL("../../scripts/kit/npm-packages.ts", import.meta.url).href;

// It tells which folder its programs would run in.
const INSTALL = `
  import { statSync } from "node:fs";
  const { NpmPackages } = await import(${JSON.stringify(MODULE)});
  const packages = new NpmPackages(process.argv[1]);
  packages.install();
  console.log(statSync(packages.folder).ino);
`;

test("packages that several processes install at once are installed by the quickest, and stay", async (t) => {
  const from = temporaryFolder(t);
  const name = basename(from);
  writeFileSync(join(from, "package.json"), JSON.stringify({ name, version: "0.0.0" }));
  const lock = { name, version: "0.0.0", lockfileVersion: 3, packages: { "": { name } } };
  writeFileSync(join(from, "package-lock.json"), JSON.stringify(lock));
  const packages = new NpmPackages(from);
  afterwards(t, () => rmSync(packages.folder, { recursive: true, force: true }));
  const args = ["--import", "tsx", "--input-type=module", "--eval", INSTALL, from];
  const install = () => promisify(execFile)(process.execPath, args);

  const told = await Promise.all([install(), install(), install()]);

  const inode = String(statSync(packages.folder).ino);
  assert.deepEqual(
    told.map(({ stdout }) => stdout.trim()),
    [inode, inode, inode],
  );
  assert(packages.isInstalled);
});

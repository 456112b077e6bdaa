import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { folderWith, testPackage } from "../package/packages.ts";

const ARCHIVE = testPackage();

test("typesVersions names the types for compilers that read no exports (node10)", (t) => {
  const home = join(folderWith(t, ARCHIVE), "node_modules", "postbackd");
  const manifest: {
    readonly typesVersions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));

  const named = manifest.typesVersions["*"] ?? {};

  assert.deepEqual(Object.keys(named), ["client", "testing", "verify", "worker"]);
  for (const [name, [file = ""]] of Object.entries(named)) {
    assert.match(readFileSync(join(home, file), "utf8"), /^export /m, name);
  }
});

test("the packed client uses the globals of every runtime alone", () => {
  const source = readFileSync(join(ROOT, "dist", "client", "client.js"), "utf8");

  assert.doesNotMatch(source, /^\s*import\b|\bimport\s*\(|\brequire\s*\(|\bprocess\b|\bBuffer\b/m);
});

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { folderWith, testPackage } from "../package/npm-package.ts";

const ARCHIVE = testPackage();

test("where package.json's exports are not read (node10), its typesVersions name the types", (t) => {
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

test("the packed client takes nothing for granted but what every runtime has", () => {
  const source = readFileSync(join(ROOT, "dist", "client", "client.js"), "utf8");

  assert.doesNotMatch(source, /^\s*import\b|\bimport\s*\(|\brequire\s*\(|\bprocess\b|\bBuffer\b/m);
});

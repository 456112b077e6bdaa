import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

interface Locked {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly gypfile?: boolean;
}

const text = readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8");
const { packages } = JSON.parse(text) as { readonly packages: Readonly<Record<string, Locked>> };

test("package-lock.json holds the packages of every platform (npm run lock)", () => {
  const optional = Object.values(packages).flatMap((locked) =>
    Object.keys(locked.optionalDependencies ?? {}),
  );

  assert.deepEqual(
    optional.filter((name) => packages[`node_modules/${name}`] === undefined),
    [],
  );
});

test("package-lock.json keeps npm ci from compiling better-sqlite3 (npm run lock)", () => {
  assert.equal(packages["node_modules/better-sqlite3"]?.gypfile, false);
});

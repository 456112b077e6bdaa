import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

interface Locked {
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly gypfile?: boolean;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly inBundle?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
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

test("package.json pins pkg to one version: the build imports an undocumented module of it", () => {
  const devDependencies = packages[""]?.devDependencies ?? {};

  assert.match(devDependencies["@yao-pkg/pkg"] ?? "", /^\d+\.\d+\.\d+$/);
  assert.equal(devDependencies["postject"], undefined);
});

/** Platforms for which the registry in use has no formatter and no linter: docs/project/dependencies.md says what that means. */
const ELSEWHERE = [
  ...["android-arm-eabi", "android-arm64", "darwin-arm64", "darwin-x64", "freebsd-x64"],
  ...["linux-arm-gnueabihf", "linux-arm-musleabihf", "linux-arm64-musl", "linux-ppc64-gnu"],
  ...["linux-riscv64-gnu", "linux-riscv64-musl", "linux-s390x-gnu", "linux-x64-musl"],
  ...["openharmony-arm64", "win32-arm64-msvc", "win32-ia32-msvc", "win32-x64-msvc"],
];

const WITHOUT_INTEGRITY = [
  ...ELSEWHERE.flatMap((platform) => [`@oxfmt/binding-${platform}`, `@oxlint/binding-${platform}`]),
  ...["darwin-arm64", "darwin-x64", "win32-arm64", "win32-x64"].map(
    (platform) => `@oxlint-tsgolint/${platform}`,
  ),
].map((name) => `node_modules/${name}`);

test("package-lock.json has the checksum of every package, except documented ones for other platforms", () => {
  // The first entry is the project, and a bundled package is in the archive of its parent.
  const found = Object.entries(packages).filter(
    ([path, { inBundle }]) => path !== "" && inBundle !== true,
  );
  const without = found.filter(([, { integrity }]) => integrity === undefined);

  assert.deepEqual(without.map(([path]) => path).toSorted(), WITHOUT_INTEGRITY.toSorted());
  for (const [path, { dev, optional }] of without) {
    assert.ok(dev === true && optional === true, `${path} is more than an optional tool`);
  }
  for (const [path, { integrity }] of found) {
    assert.match(integrity ?? "sha512-", /^sha512-/, path);
  }
});

test("package-lock.json names no registry", () => {
  assert.deepEqual(
    Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined),
    [],
  );
});

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "./manifest.ts";

/**
 * Completes `package-lock.json`; run it after `npm install`, which undoes both.
 *
 * 1. Packages for other platforms that the registry in use does not hold are left out of the lock, and
 *    then `npm ci` refuses it: "Missing: … from lock file". Here they get what npm needs to pass them by, but no
 *    checksum: only the registry has it. docs/project/dependencies.md lists them, and test/scripts/lock.test.ts
 *    admits no others.
 * 2. better-sqlite3 says `gypfile: false`, "do not compile", in a place where `npm ci` does not look. It would run
 *   node-gyp, which ends the installation without Python or `make`.
 */

const LOCK_FILE = join(ROOT, "package-lock.json");

/** A package as `package-lock.json` has it: the names that matter here. */
interface LockedPackage {
  readonly version?: string;
  readonly dev?: boolean;
  readonly gypfile?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

type LockedPackages = Record<string, LockedPackage>;

const SYSTEMS = ["aix", "android", "darwin", "freebsd", "linux", "openharmony", "win32"];

const text = readFileSync(LOCK_FILE, "utf8");
// The file is npm's own; of another shape nothing would be found in it.
const lock = JSON.parse(text) as { packages: LockedPackages };
const completed = `${JSON.stringify({ ...lock, packages: complete(lock.packages) }, null, 2)}\n`;
writeFileSync(LOCK_FILE, completed);
process.stdout.write(
  `package-lock.json ${completed === text ? "is" : "was not, and now is,"} complete\n`,
);

function complete(packages: LockedPackages): LockedPackages {
  const added = Object.values(packages).flatMap((parent) => missingOf(parent, packages));
  const compiled = "node_modules/better-sqlite3";
  const all = { ...packages, ...Object.fromEntries(added) };
  all[compiled] = { ...all[compiled], gypfile: false };
  return Object.fromEntries(Object.entries(all).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function missingOf(parent: LockedPackage, packages: LockedPackages): [string, LockedPackage][] {
  return Object.entries(parent.optionalDependencies ?? {})
    .filter(([name]) => packages[`node_modules/${name}`] === undefined)
    .map(([name, version]) => [
      `node_modules/${name}`,
      { version, ...platformOf(name), ...(parent.dev === true && { dev: true }), optional: true },
    ]);
}

/** `@oxfmt/binding-linux-arm64-musl` is for Linux on arm64 with musl. */
function platformOf(name: string): { os: string[]; cpu: string[]; libc?: string[] } {
  const [system, cpu, abi] = name.replace(/^.*\/(?:binding-)?/, "").split("-");
  if (system === undefined || cpu === undefined || !SYSTEMS.includes(system)) {
    throw new Error(`The name ${name} says no platform: give it one here.`);
  }
  const libc =
    system === "linux" && abi !== undefined ? (abi.startsWith("musl") ? "musl" : "glibc") : null;
  return { os: [system], cpu: [cpu], ...(libc !== null && { libc: [libc] }) };
}

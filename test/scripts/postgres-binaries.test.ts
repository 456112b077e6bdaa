import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";

import { findPostgres } from "../../scripts/kit/postgres-binaries.ts";

const NAMED = "POSTBACKD_TEST_POSTGRES_BIN";

describe("the search for a PostgreSQL", () => {
  test("takes the one that the environment names, and no other", (t) => {
    const folder = makePostgres(t, "postgres (PostgreSQL) 99.1 (Debian 99.1-1)");

    assert.deepEqual(findPostgres(), { folder, major: 99 });
    assert.deepEqual(findPostgres(99), { folder, major: 99 });
    assert.equal(findPostgres(98), null);
  });

  test("finds none where there is none, or where the user of the server may not run it", (t) => {
    const folder = makePostgres(t, "postgres (PostgreSQL) 99.1");

    chmodSync(join(folder, "postgres"), 0o600);
    assert.equal(findPostgres(), null);
    rmSync(folder, { recursive: true });
    assert.equal(findPostgres(), null);
  });

  test("finds none in a program that is another", (t) => {
    makePostgres(t, "postgrest (PostgREST) 99.1");

    assert.equal(findPostgres(), null);
  });

  test("makes the links between libraries that a package of npm lists, and once made takes them", (t) => {
    const folder = makePostgres(t, "postgres (PostgreSQL) 99.1");
    const [source, target] = ["native/lib/libpq.so.5.18", "native/lib/libpq.so.5"];
    const native = join(folder, "..");
    mkdirSync(join(native, "lib"));
    writeFileSync(join(native, "pg-symlinks.json"), JSON.stringify([{ source, target }]));

    assert.equal(findPostgres()?.major, 99);
    assert.equal(findPostgres()?.major, 99);
    assert.equal(readlinkSync(join(native, "lib", "libpq.so.5")), "libpq.so.5.18");
  });
});

/** Programs that say such a version, in a folder that the environment names until the test ends. */
function makePostgres(t: TestContext, version: string): string {
  const place = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  const before = process.env[NAMED];
  const folder = join(place, "native", "bin");
  t.after(() => {
    rmSync(place, { recursive: true, force: true });
    if (before === undefined) delete process.env[NAMED];
    else process.env[NAMED] = before;
  });
  // Run as root, the server's user is another.
  chmodSync(place, 0o755);
  mkdirSync(folder, { recursive: true });
  for (const name of ["initdb", "postgres"]) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho '${version}'\n`, { mode: 0o755 });
  }
  process.env[NAMED] = folder;
  return folder;
}

import assert from "node:assert/strict";
import { chmodSync, closeSync, existsSync, fstatSync, linkSync, openSync, statSync } from "node:fs";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { removeGradually } from "../../src/store/sqlite/machine/snapshot-copy.ts";
import { tempFolder } from "../helpers/daemon.ts";

const BYTES = 20 * 1024 ** 2;

function largeFile(t: TestContext): string {
  const file = join(tempFolder(t), "copy.db");
  writeFileSync(file, Buffer.alloc(BYTES, 1));
  return file;
}

/** Records the size and the name of the file at each call, and never hurries. */
function watching(file: string, t: TestContext) {
  const descriptor = openSync(file, "r");
  t.after(() => closeSync(descriptor));
  const seen: { readonly bytes: number; readonly hasName: boolean }[] = [];
  const isHurried = (): boolean => {
    seen.push({ bytes: fstatSync(descriptor).size, hasName: existsSync(file) });
    return false;
  };
  return { seen, isHurried, descriptor };
}

test("a removed file loses its name immediately and its space in steps of 8 MiB", async (t) => {
  const file = largeFile(t);
  const { seen, isHurried } = watching(file, t);
  await removeGradually(file, isHurried);
  assert.deepEqual(seen, [
    { bytes: BYTES, hasName: false },
    { bytes: BYTES - 8 * 1024 ** 2, hasName: false },
  ]);
  assert.equal(existsSync(file), false);
});

test("a hurried removal leaves the rest to the kernel", async (t) => {
  const file = largeFile(t);
  const { descriptor } = watching(file, t);
  await removeGradually(file, () => true);
  assert.equal(existsSync(file), false);
  assert.equal(fstatSync(descriptor).size, BYTES);
});

test("a file with a second name keeps its bytes", async (t) => {
  const file = largeFile(t);
  linkSync(file, `${file}.linked`);
  await removeGradually(file, () => false);
  assert.equal(existsSync(file), false);
  assert.equal(statSync(`${file}.linked`).size, BYTES);
  assert.equal(readFileSync(`${file}.linked`).at(-1), 1);
});

test("a read-only file is removed", async (t) => {
  const file = largeFile(t);
  chmodSync(file, 0o400);
  await removeGradually(file, () => false);
  assert.equal(existsSync(file), false);
});

test("the removal of a missing file succeeds", async (t) => {
  await removeGradually(join(tempFolder(t), "none"), () => false);
});

test("the removal of a folder is refused", async (t) => {
  const folder = join(tempFolder(t), "copy.db");
  mkdirSync(folder);
  writeFileSync(join(folder, "kept"), "");
  await assert.rejects(
    removeGradually(folder, () => false),
    /EISDIR/,
  );
  assert.equal(existsSync(join(folder, "kept")), true);
});

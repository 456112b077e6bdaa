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

/** Says at each question what is left of the file, and never hurries. */
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

test("a removed file has no name at once, and gives its room back in steps of 8 MiB", async (t) => {
  const file = largeFile(t);
  const { seen, isHurried } = watching(file, t);
  await removeGradually(file, isHurried);
  assert.deepEqual(seen, [
    { bytes: BYTES, hasName: false },
    { bytes: BYTES - 8 * 1024 ** 2, hasName: false },
  ]);
  assert.equal(existsSync(file), false);
});

test("whoever has no time leaves the rest to the kernel", async (t) => {
  const file = largeFile(t);
  const { descriptor } = watching(file, t);
  await removeGradually(file, () => true);
  assert.equal(existsSync(file), false);
  assert.equal(fstatSync(descriptor).size, BYTES);
});

test("a file that has another name keeps all of its bytes under it", async (t) => {
  const file = largeFile(t);
  linkSync(file, `${file}.linked`);
  await removeGradually(file, () => false);
  assert.equal(existsSync(file), false);
  assert.equal(statSync(`${file}.linked`).size, BYTES);
  assert.equal(readFileSync(`${file}.linked`).at(-1), 1);
});

test("a file that may not be written to is removed all the same", async (t) => {
  const file = largeFile(t);
  chmodSync(file, 0o400);
  await removeGradually(file, () => false);
  assert.equal(existsSync(file), false);
});

test("a file that is not there is removed", async (t) => {
  await removeGradually(join(tempFolder(t), "none"), () => false);
});

test("a folder is refused, and what is in it stays", async (t) => {
  const folder = join(tempFolder(t), "copy.db");
  mkdirSync(folder);
  writeFileSync(join(folder, "kept"), "");
  await assert.rejects(
    removeGradually(folder, () => false),
    /EISDIR/,
  );
  assert.equal(existsSync(join(folder, "kept")), true);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { fileSystemOf, fileSystemOfType } from "../../src/ops/storage.ts";

test("a network file system is found by its number, also a negative one", () => {
  for (const [type, name, kind] of [
    [0x6969, "nfs", "network"],
    [0xff534d42, "cifs", "network"],
    [0xff534d42 | 0, "cifs", "network"],
    [0x01021994, "tmpfs", "memory"],
    [0x794c7630, "overlay", "overlay"],
    [0xef53, "0xef53", "local"],
  ] as const) {
    assert.deepEqual(fileSystemOfType(type), { name, kind });
  }
});

test("the file system of a missing file is that of its folder", () => {
  assert.notEqual(fileSystemOf("/dev/shm/no-such-file").kind, "network");
  assert.throws(() => fileSystemOf("/no-such-folder/x.db"), /ENOENT/);
});

import assert from "node:assert/strict";
import { test } from "node:test";

import { judgePlace } from "../../src/ops/database-checks.ts";
import { fileSystemOf, fileSystemOfType } from "../../src/ops/storage.ts";

test("knows network file systems by their numbers, also by those that read as negative", () => {
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

test("asks the folder of a file that is not there yet", () => {
  assert.notEqual(fileSystemOf("/dev/shm/no-such-file").kind, "network");
  assert.throws(() => fileSystemOf("/no-such-folder/x.db"), /ENOENT/);
});

test("the doctor tells what a file system does to a database, and what to do about it", () => {
  const judged = [0x6969, 0x01021994, 0x794c7630, 0xef53].map((type) => {
    const { verdict, detail, remedy } = judgePlace("/data/x.db", fileSystemOfType(type));
    return [verdict, detail, remedy];
  });
  assert.deepEqual(judged, [
    [
      "failed",
      "/data/x.db lies on nfs, where locks do not keep a second daemon away",
      "move it to a disk of this machine, or use PostgreSQL",
    ],
    [
      "warning",
      "/data/x.db lies in memory (tmpfs): a reboot takes it",
      "move it to a disk, unless it is to be thrown away",
    ],
    [
      "warning",
      "/data/x.db lies in the container itself: it goes with it",
      "mount a volume for it, as with 'docker run --volume postbackd:/data'",
    ],
    ["ok", "/data/x.db lies on a disk of this machine", null],
  ]);
});

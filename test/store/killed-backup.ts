import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

/**
 * A process that makes or restores a backup and kills itself as it is about to do its n-th change to the disk, or ends
 * with 0 when there are fewer: given `create` or `restore`, the database, the copy, and n.
 */

const [step, database = "", copy = "", last = ""] = process.argv.slice(2);
let left = Number(last);

function changing<Args extends readonly unknown[], Value>(
  call: (...args: Args) => Value,
): (...args: Args) => Value {
  return (...args) => {
    if (--left === 0) process.kill(process.pid, "SIGKILL");
    return call(...args);
  };
}

Object.assign(fs, {
  chmodSync: changing(fs.chmodSync),
  copyFileSync: changing(fs.copyFileSync),
  fsyncSync: changing(fs.fsyncSync),
  renameSync: changing(fs.renameSync),
  rmSync: changing(fs.rmSync),
  writeFileSync: changing(fs.writeFileSync),
});
syncBuiltinESMExports();

const now = Date.parse("2030-01-31T09:00:00.000Z");
if (step === "create") {
  const { makeBackup } = await import("../../src/store/sqlite/backup.ts");
  const { CopyPace, newStopFlag } = await import("../../src/store/sqlite/machine/snapshot-copy.ts");
  const order = { database, file: copy, mayReplace: true, isServedHere: false, now };
  await makeBackup(order, new CopyPace(newStopFlag()));
} else {
  const { restoreCopy } = await import("../../src/store/sqlite/restore.ts");
  await restoreCopy({ copy, database, decide: async () => "pause", now, user: "tester" });
}

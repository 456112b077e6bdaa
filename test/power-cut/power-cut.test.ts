import assert from "node:assert/strict";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { sourceProgram } from "../../scripts/kit/daemon.ts";
import { ScratchFolder } from "../../scripts/kit/scratch.ts";
import { DiskRecord } from "../../scripts/power-cut/disk-record.ts";
import {
  cutPower,
  powerCutTable,
  type JudgedImage,
} from "../../scripts/power-cut/power-cut-run.ts";
import { record } from "../../scripts/power-cut/recording.ts";
import { areAtHand } from "../peers/peer-process.ts";

const STRACE = { program: "strace", debianPackage: "strace" };
const STALL_MS_MAX = 60_000;
const IMAGES_MAX = 12;

// The long version: scripts/power-cut.ts.
test("power cuts", { timeout: 300_000 }, async (t) => {
  if (!areAtHand(t, [STRACE])) return;
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const folder = join(scratch.path, "record");
  mkdirSync(folder);
  const program = sourceProgram();
  const order = { program, folder, kills: 1, loadMs: 1000, stallMsMax: STALL_MS_MAX };
  const recording = await record(order);
  const disk = await DiskRecord.read(recording.file.database, recording.lives);
  const cut = (how: { images: number; forgetsSyncs: boolean }) => {
    const plan = { recording, disk, folder: scratch.path, seed: 7, stallMsMax: STALL_MS_MAX };
    return cutPower({ ...plan, ...how });
  };

  await t.test("none breaks a promise", async () => {
    const images: JudgedImage[] = [];
    for await (const image of cut({ images: 8, forgetsSyncs: false })) images.push(image);

    assert.equal(images.length, 8);
    assert.deepEqual(
      images.flatMap(({ faults }) => faults),
      [],
    );
    for (const what of ["tasks", "cancelled", "finished", "webhooks", "revokedKeys"] as const) {
      assert(
        images.some(({ promised }) => promised[what] > 0),
        `no ${what} were promised`,
      );
    }
    assert.match(powerCutTable(disk, images), /images with a promise broken +\| +0 /);
  });

  await t.test(
    "a disk that forgets its last sync is found out, and the evidence kept",
    async () => {
      // A cut at a moment when nothing was promised breaks nothing.
      for await (const { faults, evidence } of cut({ images: IMAGES_MAX, forgetsSyncs: true })) {
        if (faults.length === 0) continue;
        assert(evidence !== null);
        assert.deepEqual(readdirSync(evidence).toSorted(), ["after", "before", "verdict.json"]);
        rmSync(evidence, { recursive: true });
        return;
      }
      assert.fail(`none of ${IMAGES_MAX} images has a promise broken`);
    },
  );
});

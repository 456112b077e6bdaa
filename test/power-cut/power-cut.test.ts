import assert from "node:assert/strict";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { sourceProgram } from "../../scripts/kit/daemon.ts";
import { ScratchFolder } from "../../scripts/kit/scratch.ts";
import { powerCutTable } from "../../scripts/power-cut/command.ts";
import {
  cutPower,
  type JudgedImage,
  type PowerCutReport,
} from "../../scripts/power-cut/power-cut-run.ts";
import { hasRecording, loadRecording, record } from "../../scripts/power-cut/recording.ts";
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
  await record({ program, folder, kills: 1, loadMs: 1000, stallMsMax: STALL_MS_MAX });
  assert(hasRecording(folder));
  const recording = loadRecording(folder, program);
  const cut = (how: { images: number; onlyImage?: number; forgetsSyncs: boolean }) => {
    const options = { recording, folder: scratch.path, seed: 7, stallMsMax: STALL_MS_MAX };
    return cutPower({ ...options, ...how, onImage: () => {} });
  };
  const faultsOf = (images: readonly JudgedImage[]) => images.flatMap(({ faults }) => faults);

  await t.test("none breaks a promise", async () => {
    const report = await cut({ images: 8, forgetsSyncs: false });

    assert.equal(report.images.length, 8);
    assert.deepEqual(faultsOf(report.images), []);
    const promised = report.images.map((image) => image.promised);
    for (const what of ["tasks", "cancelled", "finished", "webhooks", "revokedKeys"] as const) {
      assert(
        promised.some((count) => count[what] > 0),
        `no ${what} were promised`,
      );
    }
    assert.match(powerCutTable(report), /images with a promise broken +\| +0 /);
  });

  await t.test(
    "a disk that forgets its last sync is found out, and the evidence kept",
    async () => {
      const broken = await firstBroken((onlyImage) =>
        cut({ images: IMAGES_MAX, onlyImage, forgetsSyncs: true }),
      );

      assert(broken !== null, `none of ${IMAGES_MAX} images has a promise broken`);
      const { evidence } = broken;
      assert(evidence !== null);
      assert.deepEqual(readdirSync(evidence).toSorted(), ["after", "before", "verdict.json"]);
      rmSync(evidence, { recursive: true });
    },
  );
});

/** One image after the other: a cut at a moment when nothing was promised breaks nothing. */
async function firstBroken(
  judge: (onlyImage: number) => Promise<PowerCutReport>,
): Promise<JudgedImage | null> {
  for (let number = 1; number <= IMAGES_MAX; number++) {
    const { images } = await judge(number);
    assert.deepEqual(
      images.map((image) => image.number),
      [number],
    );
    const broken = images.find(({ faults }) => faults.length > 0);
    if (broken !== undefined) return broken;
  }
  return null;
}

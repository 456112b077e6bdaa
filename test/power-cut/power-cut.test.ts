import assert from "node:assert/strict";
import { mkdirSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { carefulCall } from "../../scripts/kit/client.ts";
import { createDaemonFile, sourceProgram, startDaemon } from "../../scripts/kit/daemon.ts";
import { ScratchFolder } from "../../scripts/kit/scratch.ts";
import { DiskRecord } from "../../scripts/power-cut/disk-record.ts";
import {
  type JudgedImage,
  cutPower,
  powerCutTable,
} from "../../scripts/power-cut/power-cut-run.ts";
import { LifeRecorder, record } from "../../scripts/power-cut/recording.ts";
import { farStart } from "../helpers/far-start.ts";
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

// A task that starts later: the second daemon has no write of its own.
const BODY = JSON.stringify([{ type: "echo", start_at: farStart() }]);

// A daemon may be killed between a write and its sync. The next daemon finds the write and may return it.
test("a daemon syncs the WAL of a killed daemon before it responds with data of it", async (t) => {
  if (!areAtHand(t, [{ program: "strace", debianPackage: "strace" }])) return;
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const folder = realpathSync(scratch.path);
  const lives = new LifeRecorder(sourceProgram(), folder);
  const made = await createDaemonFile({ program: lives.program(), folder });
  await lives.end(made.folder, null);
  const headers = { "content-type": "application/json", "idempotency-key": "once" };
  const answers = [];

  for (const _ of ["killed", "next"]) {
    await using daemon = await startDaemon({ ...made, program: lives.program() });
    const request = { secret: made.account.key, headers, body: BODY };
    answers.push(await carefulCall(`${daemon.url}/v1/tasks/task_post`, request));
    await daemon.kill();
    await lives.end(made.folder, Date.now());
  }

  const [, answer] = answers;
  assert.equal(answer?.isReplayed, true);
  const { changes, lifeStarts, said } = await DiskRecord.read(made.database, lives.all);
  const [first] = changes.filter((change) => {
    const name = "name" in change ? change.name : "";
    return change.begun > (lifeStarts[2] ?? Infinity) && name === "postbackd.db-wal";
  });
  assert.equal(first?.kind, "synced");
  assert(first.over < (said.get(answer.requestId) ?? 0));
});

import assert from "node:assert/strict";
import { realpathSync } from "node:fs";
import { test } from "node:test";

import { carefulCall } from "../../scripts/kit/client.ts";
import { createDaemonFile, sourceProgram, startDaemon } from "../../scripts/kit/daemon.ts";
import { ScratchFolder } from "../../scripts/kit/scratch.ts";
import { DiskRecord } from "../../scripts/power-cut/disk-record.ts";
import { LifeRecorder } from "../../scripts/power-cut/recording.ts";
import { farStart } from "../helpers/far-start.ts";
import { areAtHand } from "../peers/peer-process.ts";

// A task that is left alone: the second daemon has nothing to write of its own.
const BODY = JSON.stringify([{ type: "echo", start_at: farStart() }]);

// It may have been killed between writing and syncing: what it has told nobody, the next daemon finds and tells.
test("a daemon syncs what a killed one has left in the WAL before it answers with it", async (t) => {
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

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

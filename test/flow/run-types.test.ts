import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";

const TYPES = '[types.a]\nrunner = "echo"\n[types.b]\nrunner = "echo"\n';

test("a daemon accepts tasks of a type that it does not run, and another daemon runs them", async (t) => {
  const first = await startTestDaemon(t, { toml: `run_types = ["b"]\n${TYPES}` });
  const posted = await first.post([
    { type: "a", input: 1 },
    { type: "b", input: 2 },
  ]);
  const [left = "", own = ""] = posted.tasks.map(({ id }) => id);
  await first.daemon.idle();

  assert.equal((await first.get(own)).state, "completed");
  const waiting = await first.get(left);
  assert.deepEqual([waiting.state, waiting.runs], ["queued", 0]);

  await first.daemon.stop();
  const { folder, account } = first;
  const second = await startTestDaemon(t, { folder, account, toml: TYPES });
  await second.daemon.idle();
  assert.equal((await second.get(left)).state, "completed");
});

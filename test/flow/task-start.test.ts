import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createTestAccount, startTestDaemon, tempFolder } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { taskClient } from "../helpers/task-client.ts";
import { NOW } from "./world.ts";

function at(seconds: number): string {
  return new Date(NOW + seconds * 1000).toISOString();
}

/** A daemon that runs one task at a time. `order` returns the tags of all runs up to a time. */
async function start(t: TestContext) {
  const file = join(tempFolder(t), "order");
  writeFileSync(file, "");
  const script = `read -r line; tag=\${line#*'"tag":"'}; printf %s "\${tag%%'"'*}" >>"$0"; echo 1`;
  const command = JSON.stringify(["/bin/sh", "-c", script, file]);
  const clock = createFakeClock({ now: NOW });
  const toml = `[types.one]\ncommand = ${command}\nconcurrency = 1\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  const order = async (seconds: number): Promise<string> => {
    clock.jump(seconds * 1000);
    await daemon.daemon.idle();
    return readFileSync(file, "utf8");
  };
  return { daemon, order };
}

test("accounts take turns, independent of queue lengths and priorities", async (t) => {
  const { daemon, order } = await start(t);
  const { key } = await createTestAccount(daemon.file, "other");
  const other = taskClient({ url: daemon.url, key });
  // All are queued before the first starts.
  const start_at = at(1);
  await daemon.post(Array.from({ length: 30 }, () => ({ tag: "a", priority: 9, start_at })));
  for (const tag of "bbb") await other.post({ tag, start_at });

  assert.equal(await order(1), `ababab${"a".repeat(27)}`);
});

test("due tasks of an account start by priority, then in the order posted", async (t) => {
  const { daemon, order } = await start(t);
  await daemon.post([
    { tag: "a", start_at: at(9) },
    { tag: "b", start_at: at(3) },
    { tag: "c", start_at: at(10), priority: 5 },
    { tag: "d", start_at: at(10) },
    { tag: "e", start_at: at(1), priority: 9 },
    { tag: "f", start_at: at(11), priority: 9 },
  ]);
  await daemon.post({ tag: "g", start_at: at(2), priority: 5 });

  assert.equal(await order(0), "");
  assert.equal(await order(10), "ecgabd");
  assert.equal(await order(1), "ecgabdf");
});

test("a task starts at its start_at, or immediately if the time has passed", async (t) => {
  const { daemon, order } = await start(t);
  await daemon.post([
    { tag: "c", start_at: at(2), priority: 9 },
    { tag: "b", start_at: at(1) },
    { tag: "a", start_at: at(-1) },
  ]);

  assert.equal(await order(0), "a");
  assert.equal(await order(1), "ab");
  assert.equal(await order(1), "abc");
});

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

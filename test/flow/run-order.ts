import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { startTestDaemon, tempFolder, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";

/** When the daemon starts. */
export const NOW = Date.parse("2030-01-31T09:00:00.000Z");

/** A daemon whose one type tells in which order its tasks ran. */
export interface OrderSetup {
  readonly clock: FakeClock;
  readonly daemon: TestDaemon;
  /** The tags of the tasks that ran so far, in their order. */
  readonly order: () => string;
}

/** Starts a daemon with a type of its own that runs one task at a time and writes down its tag. */
export async function startOrdered(t: TestContext): Promise<OrderSetup> {
  const file = join(tempFolder(t), "order");
  writeFileSync(file, "");
  // A process for each task, as small as there is one.
  const script = `read -r line; tag=\${line#*'"tag":"'}; printf %s "\${tag%%'"'*}" >>"$0"; echo 1`;
  const command = JSON.stringify(["/bin/sh", "-c", script, file]);
  const clock = createFakeClock({ now: NOW });
  const toml = `[types.one]\ncommand = ${command}\nconcurrency = 1\n`;
  const daemon = await startTestDaemon(t, { clock, toml });
  return { clock, daemon, order: () => readFileSync(file, "utf8") };
}

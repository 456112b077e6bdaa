import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";

export const NOW = Date.parse("2030-01-31T09:00:00.000Z");

/** A daemon whose virtual clock starts at {@link NOW}. */
export async function startAt9(
  t: TestContext,
  toml = "",
): Promise<{ readonly clock: FakeClock; readonly daemon: TestDaemon }> {
  const clock = createFakeClock({ now: NOW });
  return { clock, daemon: await startTestDaemon(t, { clock, toml }) };
}

/** Posts one task, refused or not, and returns its id. */
export async function postOne(daemon: TestDaemon, task: object): Promise<string> {
  const { tasks } = await daemon.post([task]);
  return tasks[0]?.id ?? assert.fail();
}

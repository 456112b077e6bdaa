import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { createHttpRunner } from "../../src/run/http.ts";
import type { HttpRunnerOptions } from "../../src/run/http.ts";
import type { Runner, RunOutcome, RunRequest } from "../../src/run/runner.ts";
import { RESULT_PARSES } from "../../src/run/service-result.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import type { FakeClock } from "../helpers/fake-clock.ts";
import { inlineOffload } from "../helpers/inline-parser.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Receiver, Reply } from "../helpers/receiver.ts";
import { runOnce } from "./command-run.ts";

export { completed, runOnce } from "./command-run.ts";

export const NOW = Date.parse("2030-01-31T09:00:00.000Z");
/** The default timeout of a run. */
export const TIMEOUT_MS = 60_000;

/** Overrides of a run. */
export type RunOverrides = Partial<HttpRunnerOptions & RunRequest & { signal: AbortSignal }>;

/** A service, a clock that stands still, and runs that post to the service. */
export interface HttpSetup {
  readonly receiver: Receiver;
  readonly clock: FakeClock;
  /** A runner with the longest waits. */
  runner(overrides?: RunOverrides): Runner;
  run(overrides?: RunOverrides): Promise<RunOutcome>;
}

export async function startService(t: TestContext, reply?: Reply): Promise<HttpSetup> {
  const receiver = await startReceiver(t, reply === undefined ? {} : { reply });
  const clock = createFakeClock({ now: NOW });
  const runner = (overrides: RunOverrides = {}): Runner =>
    createHttpRunner({
      url: receiver.url("/resize"),
      headers: {},
      timeoutMs: TIMEOUT_MS,
      concurrency: 4,
      resultBytesMax: 100_000,
      clock,
      parsing: { parser: inlineOffload(RESULT_PARSES), owner: "resize" },
      random: () => 0,
      ...overrides,
    });
  return {
    receiver,
    clock,
    runner,
    run: (overrides = {}) => runOnce(runner(overrides), overrides),
  };
}

/** The outcome of a run that failed or timed out. */
export function failureOf(
  outcome: RunOutcome,
  kind: "failed" | "timed_out" = "failed",
): Extract<RunOutcome, { kind: "failed" | "timed_out" }> {
  assert(outcome.kind === kind, `it was ${JSON.stringify(outcome)}`);
  return outcome;
}

/** Advances the clock to the next timer that is not the timeout, and returns the milliseconds. */
export async function passWait(clock: FakeClock): Promise<number> {
  await clock.whenPending(2);
  const [ms = 0] = clock.pending();
  clock.advance(ms);
  return ms;
}

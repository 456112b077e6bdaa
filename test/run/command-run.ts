import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { systemClock } from "../../src/domain/clock/clock.ts";
import type { CommandLine } from "../../src/domain/task/run.ts";
import { type CommandRunnerOptions, createCommandRunner } from "../../src/run/command.ts";
import type { RunOptions, RunOutcome, RunRequest, Runner } from "../../src/run/runner.ts";
import type { FakeClock } from "../helpers/fake-clock.ts";

/** The default timeout of a run. */
export const TIMEOUT_MS = 60_000;
const RESULT_BYTES_MAX = 1_048_576;

/** The path of a file in test/fixtures/commands. */
export const fixture = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/commands/${name}`, import.meta.url));
/** Runs a fixture with Node.js. */
export const node = (name: string, ...args: string[]): CommandLine => [
  process.execPath,
  fixture(name),
  ...args,
];
/** Runs a shell script; the arguments are its `$1`, `$2`, … */
export const sh = (script: string, ...args: string[]): CommandLine => [
  "sh",
  "-c",
  script,
  "sh",
  ...args,
];

/** A command runner, by default on the real clock. */
export function makeRunner(
  command: CommandLine,
  overrides: Partial<CommandRunnerOptions> = {},
): Runner {
  return createCommandRunner({
    command,
    timeoutMs: TIMEOUT_MS,
    concurrency: 1,
    env: {},
    cwd: process.cwd(),
    resultBytesMax: RESULT_BYTES_MAX,
    owner: "test",
    clock: systemClock,
    ...overrides,
  });
}

/** Runs a command once, by default for a task without input. */
export function run(
  command: CommandLine,
  overrides: Partial<CommandRunnerOptions & RunRequest & RunOptions> = {},
): Promise<RunOutcome> {
  return runOnce(makeRunner(command, overrides), overrides);
}

/** An empty folder, removed after the test. */
export async function makeFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "postbackd-command-"));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

/** Waits until a timer of `delayMs` exists. */
export async function timerOf(clock: FakeClock, delayMs: number): Promise<void> {
  while (!clock.pending().includes(delayMs)) await new Promise((resolve) => setImmediate(resolve));
}

/** Advances the clock by 1 ms per turn of the event loop until the promise settles. */
export async function drive<T>(clock: FakeClock, promise: Promise<T>): Promise<T> {
  let isSettled = false;
  const settled = promise.finally(() => {
    isSettled = true;
  });
  while (!isSettled) {
    clock.advance(1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return settled;
}

/** Runs one task, by default without input. */
export function runOnce(
  runner: Runner,
  overrides: Partial<RunRequest & RunOptions> = {},
): Promise<RunOutcome> {
  const { id = "t-1", type = "test", tag = null, marketplace = null } = overrides;
  const { inputText = "null", signal = new AbortController().signal } = overrides;
  const { report = () => {}, trace = null } = overrides;
  const request = { id, type, tag, marketplace, inputText, trace };
  return runner.run(request, { signal, report });
}

/** The outcome of a completed run. */
export const completed = (resultText: string): RunOutcome => ({ kind: "completed", resultText });

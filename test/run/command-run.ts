import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type Socket, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
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

/** A process that holds a connection until its end. */
export interface HeldProcess {
  readonly socket: Socket;
  /** Its next line; rejects if it ends before. */
  line(): Promise<string>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<unknown>;
}

/** The socket to which processes of test/fixtures/commands connect. */
export interface HeldProcesses {
  readonly socketPath: string;
  /** The next process that connects. */
  next(): Promise<HeldProcess>;
}

/** Opens a Unix socket that shows the start and the end of processes. */
export async function openHeldProcesses(t: TestContext): Promise<HeldProcesses> {
  const folder = await mkdtemp(join(tmpdir(), "postbackd-held-"));
  const socketPath = join(folder, "socket");
  const server = createServer();
  const waiting: HeldProcess[] = [];
  const wanted: ((process: HeldProcess) => void)[] = [];
  server.on("connection", (socket) => {
    const held = toHeldProcess(socket);
    const want = wanted.shift();
    if (want === undefined) waiting.push(held);
    else want(held);
  });
  server.listen(socketPath);
  await once(server, "listening");
  t.after(async () => {
    server.close();
    await rm(folder, { recursive: true });
  });
  return {
    socketPath,
    next: async () => waiting.shift() ?? new Promise((resolve) => wanted.push(resolve)),
  };
}

function toHeldProcess(socket: Socket): HeldProcess {
  // A killed process may reset its connection: that is an end too.
  socket.on("error", () => {});
  const ended = new Promise((resolve) => socket.once("close", resolve));
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  return {
    socket,
    ended,
    async line() {
      const next = await lines.next();
      if (next.done === true) throw new Error("The process ended without another line.");
      return next.value;
    },
  };
}

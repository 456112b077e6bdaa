import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";

import { SERVICE_CONFIG_FILE } from "../../src/config/setting.ts";

/** The ready line, parsed. */
export interface Ready {
  readonly event: "ready";
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly db: string;
  readonly version: string;
}

/** One of the two is null. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A started program, killed when the test ends. */
export interface Program {
  readonly pid: number;
  /** Its working folder: with no `--db` the database is `postbackd.db` in it. */
  readonly cwd: string;
  /** Resolves with the ready line. Rejects with the output if the program ends, or after 60 s. */
  readonly ready: Promise<Ready>;
  readonly stdout: string;
  readonly stderr: string;
  /** Resolves when it has ended and its output is read. */
  readonly exit: Promise<Exit>;
  kill(signal: NodeJS.Signals): void;
  /** Closes its output, as when the reader of a pipe ends. */
  closeOutput(): void;
  /** Sends SIGTERM. */
  stop(): Promise<Exit>;
  /** Resolves when a line of stderr contains the text. Rejects if the program ends before. */
  says(text: string): Promise<void>;
}

export interface ProgramOptions {
  /** Added to the environment without POSTBACKD_* variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** By default a new temporary folder. */
  readonly cwd?: string;
  /** By default the sources. */
  readonly command?: readonly [string, ...string[]];
}

export interface Finished extends Exit {
  readonly stdout: string;
  readonly stderr: string;
}

// As root, a command without a database would change the database of the installed service.
assert.ok(
  process.geteuid?.() !== 0 || !existsSync(SERVICE_CONFIG_FILE),
  "this machine has the service: run the tests as another user than root, or in a container",
);

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

/** The sources, or in a run of all tests their bundle, which starts in two thirds of the time. */
export const SOURCES: readonly [string, ...string[]] = [
  process.execPath,
  process.env["POSTBACKD_TEST_PROGRAM"] ?? MAIN,
];
const READY_MS_MAX = 60_000;

/** Starts the real program as a process. `start` needs `--port 0`. */
export function startProgram(
  t: TestContext,
  args: readonly string[],
  options: ProgramOptions = {},
): Program {
  const cwd = options.cwd ?? temporaryFolder(t);
  const [file, ...fixed] = options.command ?? SOURCES;
  const env = { ...cleanEnvironment(), ...options.env };
  const child = spawn(file, [...fixed, ...args], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const stdout = collectText(child.stdout);
  const stderr = collectText(child.stderr);
  const exit = new Promise<Exit>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  const kill = (signal: NodeJS.Signals): void => void child.kill(signal);
  const end = async (): Promise<void> => {
    // Does nothing to a process that has ended.
    kill("SIGKILL");
    await exit;
  };
  programsOf(t).push(end);
  t.after(end);
  const ready = readyFrom(stdout.line('"event":"ready"'), () => stderr.text);
  // A command that ends by itself has no ready line.
  ready.catch(() => {});
  return {
    pid: child.pid ?? -1,
    cwd,
    ready,
    exit,
    kill,
    closeOutput() {
      child.stdout.destroy();
      child.stderr.destroy();
    },
    get stdout() {
      return stdout.text;
    },
    get stderr() {
      return stderr.text;
    },
    stop() {
      kill("SIGTERM");
      return exit;
    },
    says: async (text) => void (await stderr.line(text)),
  };
}

/** Runs a command that ends by itself, and waits for it. */
export async function runProgram(
  t: TestContext,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<Finished> {
  const program = startProgram(t, args, options);
  const exit = await program.exit;
  return { ...exit, stdout: program.stdout, stderr: program.stderr };
}

/** An empty folder, removed after the programs of the test. */
export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-test-"));
  t.after(async () => {
    // A running program would write into the folder.
    await Promise.all(programsOf(t).map((end) => end()));
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

const programs = new WeakMap<TestContext, (() => Promise<void>)[]>();

function programsOf(t: TestContext): (() => Promise<void>)[] {
  const known = programs.get(t) ?? [];
  programs.set(t, known);
  return known;
}

/** The environment without variables of the product and of the test runner. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("POSTBACKD_"));
  return { ...Object.fromEntries(kept), NODE_TEST_CONTEXT: undefined };
}

interface Collected {
  readonly text: string;
  /** The first line that contains the text; rejects when the stream ends without one. */
  line(text: string): Promise<string>;
}

function collectText(stream: Readable): Collected {
  let text = "";
  let hasEnded = false;
  const waiting: (() => void)[] = [];
  const wake = (): void => {
    for (const look of waiting.splice(0)) look();
  };
  stream.setEncoding("utf8");
  stream.on("data", (part: string) => {
    text += part;
    wake();
  });
  stream.once("close", () => {
    hasEnded = true;
    wake();
  });
  const line = (part: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        // The last line is incomplete.
        const found = text.split("\n").slice(0, -1);
        const match = found.find((each) => each.includes(part));
        if (match !== undefined) resolve(match);
        else if (hasEnded) reject(new Error(`the program ended without ${part}`));
        else waiting.push(look);
      };
      look();
    });
  return {
    get text() {
      return text;
    },
    line,
  };
}

async function readyFrom(line: Promise<string>, said: () => string): Promise<Ready> {
  let text: string;
  try {
    text = await withinReadyTime(line);
  } catch (error) {
    throw new Error(`no ready line, but:\n${said()}`, { cause: error });
  }
  return JSON.parse(text) as Ready;
}

async function withinReadyTime(line: Promise<string>): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no line in ${READY_MS_MAX} ms`)), READY_MS_MAX);
  });
  try {
    return await Promise.race([line, late]);
  } finally {
    clearTimeout(timer);
  }
}

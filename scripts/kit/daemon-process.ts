import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { cleanAtExit } from "./exit-cleanup.ts";
import type { Program } from "./program.ts";

/** How to start a daemon. */
export interface DaemonStart {
  readonly program: Program;
  /** Its folder; a database or configuration named without a folder lies here. */
  readonly folder: string;
  /** The arguments after `start`. */
  readonly flags: readonly string[];
}

const READY_MS_MAX = 60_000;
// The daemon gives everything under way 25 s.
const STOP_MS_MAX = 30_000;
const STDERR_KEPT = 4096;

const readyLine = z.object({
  event: z.literal("ready"),
  url: z.string(),
  port: z.number(),
  pid: z.number(),
});

/** A postbackd that runs as a process of its own. Gone when it is disposed of or this process ends. */
export class DaemonProcess {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** From its start to its ready line. */
  readonly readyMs: number;
  /** Settles when it has ended, by itself or otherwise. */
  readonly ended: Promise<unknown>;
  readonly #child: ChildProcess;
  readonly #stderr: () => string;
  readonly #kill: () => void;

  private constructor(
    started: Started,
    { ready, readyMs }: { readonly ready: z.infer<typeof readyLine>; readonly readyMs: number },
  ) {
    this.url = ready.url;
    this.port = ready.port;
    this.pid = ready.pid;
    this.readyMs = readyMs;
    this.#child = started.child;
    this.ended = once(started.child, "exit");
    this.#stderr = started.stderr;
    this.#kill = started.kill;
  }

  /** Starts it and waits until it is ready. When it does not get ready it rejects with the daemon's stderr. */
  static async start(start: DaemonStart): Promise<DaemonProcess> {
    const startedAt = performance.now();
    const started = spawnDaemon(start);
    try {
      const line = await firstLine(started);
      const readyMs = performance.now() - startedAt;
      const ready = readyLine.parse(JSON.parse(line));
      return new DaemonProcess(started, { ready, readyMs });
    } catch (error) {
      started.kill();
      throw new Error(`the daemon did not get ready: ${started.stderr()}`, { cause: error });
    }
  }

  /** Starts it and kills it `afterMs` later, ready or not. */
  static async startAndKill(start: DaemonStart, afterMs: number): Promise<void> {
    const { child, kill } = spawnDaemon(start);
    const ended = once(child, "exit");
    await sleep(afterMs);
    kill();
    await ended;
  }

  /** Asks it to stop and waits. Rejects when it ends in any other way than by exit code 0. */
  async stop(): Promise<void> {
    const ended = this.#ended(STOP_MS_MAX);
    this.#child.kill("SIGTERM");
    const how = await ended;
    if (how !== "exit code 0") throw new Error(`the daemon ended by ${how}: ${this.#stderr()}`);
  }

  /** kill -9. Settles when it is gone. */
  async kill(): Promise<void> {
    const ended = this.#ended(STOP_MS_MAX);
    this.#kill();
    await ended;
  }

  /** True until it has ended, by itself or otherwise. */
  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Throws, with its log, when it has ended although nobody asked it to. */
  requireRunning(): void {
    if (!this.isRunning) throw new Error(`the daemon ended by itself: ${this.log}`);
  }

  /** The end of its stderr: its log. */
  get log(): string {
    return this.#stderr();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isRunning) await this.kill();
  }

  async #ended(msMax: number): Promise<string> {
    if (this.isRunning) await once(this.#child, "exit", { signal: AbortSignal.timeout(msMax) });
    const { exitCode, signalCode } = this.#child;
    return exitCode === null ? `signal ${signalCode}` : `exit code ${exitCode}`;
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly stderr: () => string;
  readonly kill: () => void;
}

function spawnDaemon({ program, folder, flags }: DaemonStart): Started {
  const [file, ...args] = program.command;
  const child = spawn(file, [...args, "start", ...flags], {
    cwd: folder,
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT);
  });
  const kill = cleanAtExit(() => child.kill("SIGKILL"));
  return { child, stderr: () => stderr, kill };
}

// Settings of the caller's environment must not reach the measured daemon.
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("POSTBACKD_"));
  return Object.fromEntries(kept);
}

function firstLine({ child }: Started): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error("it took too long")), READY_MS_MAX);
    child.stdout?.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      const end = text.indexOf("\n");
      if (end !== -1) settle(() => resolve(text.slice(0, end)));
    });
    child.once("error", (error) => settle(() => reject(error)));
    child.once("exit", (code) => settle(() => reject(new Error(`it ended with ${code}`))));
    const settle = (how: () => void): void => {
      clearTimeout(timer);
      how();
    };
  });
}

/** An account, as `admin account create` shows it this once. */
export interface NewAccount {
  readonly login: string;
  readonly key: string;
  readonly webhookSecret: string;
}

const createdAccount = z.object({
  login: z.string(),
  webhook_secret: z.string(),
  key: z.object({ key: z.string() }),
});

const createdLink = z.object({ link: z.object({ url: z.string() }) });

const createdWorker = z.object({ worker: z.object({ token: z.string() }) });

/** The arguments that make the command line work on the database of that name in `folder`. */
export type AdminPlace = Omit<DaemonStart, "flags"> & { readonly database: string };

/** Makes an account with the command line. */
export async function createAccount(login: string, place: AdminPlace): Promise<NewAccount> {
  const answer = await runAdmin(["account", "create", login], place);
  const { key, webhook_secret: webhookSecret } = createdAccount.parse(answer);
  return { login, key: key.key, webhookSecret };
}

/** Makes a worker for tasks of these types with the command line, and answers its token. */
export async function createWorker(
  { name, types }: { readonly name: string; readonly types: readonly string[] },
  place: AdminPlace,
): Promise<string> {
  const flags = types.flatMap((type) => ["--type", type]);
  const answer = await runAdmin(["worker", "create", name, ...flags], place);
  return createdWorker.parse(answer).worker.token;
}

/** Makes a link that signs the operator in, with the command line, and answers its token. */
export async function createSignInToken(place: AdminPlace): Promise<string> {
  const { link } = createdLink.parse(await runAdmin(["link"], place));
  return new URL(link.url).hash.replace("#link=", "");
}

/** Runs an `admin` command and answers the document that it prints. */
async function runAdmin(words: readonly string[], place: AdminPlace): Promise<unknown> {
  const all = ["admin", ...words, "--db", place.database, "--json"];
  const { error, stdout } = await runProgram(all, place);
  if (error !== null) throw error;
  return JSON.parse(stdout);
}

/** How a command ended: `error` is null for one that ended well. */
export interface ProgramEnd {
  readonly error: Error | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command of the program to its end. */
export function runProgram(
  words: readonly string[],
  { program, folder }: Omit<DaemonStart, "flags">,
): Promise<ProgramEnd> {
  const [file, ...args] = program.command;
  const options = { cwd: folder, env: cleanEnvironment() };
  return new Promise((resolve) => {
    execFile(file, [...args, ...words], options, (error, stdout, stderr) => {
      resolve({ error, stdout, stderr });
    });
  });
}

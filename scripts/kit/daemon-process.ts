import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { cleanAtExit } from "./exit-cleanup.ts";
import type { Program } from "./program.ts";

/** How to start a daemon. */
export interface DaemonStart {
  readonly program: Program;
  /** Its folder; a database or configuration named without a folder lies here. */
  readonly folder: string;
  /** `start` unless given. */
  readonly verb?: "start" | "dev";
  /** The arguments after the verb. */
  readonly flags: readonly string[];
}

const READY_MS_MAX = 60_000;
// The daemon gives everything under way 25 s.
const STOP_MS_MAX = 30_000;
const LOG_KEPT = 4096;

const readyLine = z.object({
  event: z.literal("ready"),
  url: z.string(),
  port: z.number(),
  pid: z.number(),
});

type ReadyLine = z.infer<typeof readyLine>;

/** A postbackd that runs as a process of its own. Gone when it is disposed of or this process ends. */
export class DaemonProcess {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** From its start to its ready line. */
  readonly readyMs: number;
  /** Settles when it has ended, by itself or otherwise. */
  readonly ended: Promise<unknown>;
  readonly #started: Started;

  private constructor(started: Started, ready: ReadyLine & { readonly readyMs: number }) {
    this.url = ready.url;
    this.port = ready.port;
    this.pid = ready.pid;
    this.readyMs = ready.readyMs;
    this.ended = once(started.child, "exit");
    this.#started = started;
  }

  /** Starts it and waits until it is ready. When it does not get ready it rejects with the daemon's stderr. */
  static async start(start: DaemonStart): Promise<DaemonProcess> {
    const startedAt = performance.now();
    const started = spawnDaemon(start);
    try {
      const ready = readyLine.parse(JSON.parse(await firstLine(started)));
      return new DaemonProcess(started, { ...ready, readyMs: performance.now() - startedAt });
    } catch (error) {
      started.kill();
      throw new Error(`the daemon did not get ready: ${started.log()}`, { cause: error });
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
    const { child } = this.#started;
    await this.#end(() => child.kill("SIGTERM"));
    const { exitCode, signalCode } = child;
    const how = exitCode === null ? `signal ${signalCode}` : `exit code ${exitCode}`;
    if (exitCode !== 0) throw new Error(`the daemon ended by ${how}: ${this.log}`);
  }

  /** kill -9. Settles when it is gone. */
  async kill(): Promise<void> {
    await this.#end(this.#started.kill);
  }

  /** True until it has ended, by itself or otherwise. */
  get isRunning(): boolean {
    const { exitCode, signalCode } = this.#started.child;
    return exitCode === null && signalCode === null;
  }

  /** Throws, with its log, when it has ended although nobody asked it to. */
  requireRunning(): void {
    if (!this.isRunning) throw new Error(`the daemon ended by itself: ${this.log}`);
  }

  /** The end of its stderr: its log. */
  get log(): string {
    return this.#started.log();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isRunning) await this.kill();
  }

  async #end(ask: () => void): Promise<void> {
    const { child } = this.#started;
    const signal = AbortSignal.timeout(STOP_MS_MAX);
    const ended = this.isRunning ? once(child, "exit", { signal }) : Promise.resolve();
    ask();
    await ended;
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly stdout: Readable;
  /** The end of its stderr. */
  readonly log: () => string;
  readonly kill: () => void;
}

function spawnDaemon({ program, folder, verb = "start", flags }: DaemonStart): Started {
  const [file, ...args] = program.command;
  const child = spawn(file, [...args, verb, ...flags], {
    cwd: folder,
    env: cleanEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log = (log + text).slice(-LOG_KEPT);
  });
  return {
    child,
    stdout: child.stdout,
    log: () => log,
    kill: cleanAtExit(() => child.kill("SIGKILL")),
  };
}

// Settings of the caller's environment must not reach the measured daemon.
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("POSTBACKD_"));
  return Object.fromEntries(kept);
}

async function firstLine({ child, stdout }: Started): Promise<string> {
  const lines = createInterface({ input: stdout });
  const said = once(lines, "line", { signal: AbortSignal.timeout(READY_MS_MAX) });
  // It rejects where there is no such program.
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`it ended with ${code}`);
  });
  const [line] = z.tuple([z.string()]).parse(await Promise.race([said, ended]));
  return line;
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

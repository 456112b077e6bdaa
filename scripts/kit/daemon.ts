import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { ROOT } from "../manifest.ts";
import { cleanAtExit } from "./scratch.ts";

const EXECUTABLE = join(ROOT, "dist", "postbackd");

/** A way to run postbackd. */
export interface Program {
  /** For people. */
  readonly name: string;
  /** Program and first arguments, with absolute paths: it is started in other folders. */
  readonly command: readonly [string, ...string[]];
}

/** postbackd from its sources, run by the Node of this process. */
export function sourceProgram(): Program {
  return {
    name: `src/main.ts, Node ${process.versions.node}`,
    command: [process.execPath, join(ROOT, "src", "main.ts")],
  };
}

/**
 * The program that `--program` names: `source`, `binary`, or the path of an executable. Without it the built binary if
 * it is newer than every source, else the sources.
 */
export function chooseProgram(wanted: string | undefined): Program {
  if (wanted === "source") return sourceProgram();
  if (wanted === undefined && !isBuilt()) return sourceProgram();
  const file = wanted === undefined || wanted === "binary" ? EXECUTABLE : resolve(wanted);
  return { name: `the executable ${relative(ROOT, file)}`, command: [file] };
}

function isBuilt(): boolean {
  const modifiedAt = (file: string): number =>
    statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const builtAt = modifiedAt(EXECUTABLE);
  const sources = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" });
  const others = ["schema.sql", "schema-postgres.sql", "package-lock.json"];
  const files = [...sources.map((name) => join("src", name)), ...others];
  return files.every((file) => modifiedAt(join(ROOT, file)) < builtAt);
}

export interface DaemonStart {
  readonly program: Program;
  /** Its working folder; relative paths of a database or configuration start here. */
  readonly folder: string;
  /** `start` unless given. */
  readonly verb?: "start" | "dev";
  /** The arguments after the verb. */
  readonly flags: readonly string[];
}

const READY_MS_MAX = 60_000;
// The daemon drains for 25 s.
const STOP_MS_MAX = 30_000;
const LOG_KEPT = 4096;

const readyLine = z.object({
  event: z.literal("ready"),
  url: z.string(),
  port: z.number(),
  pid: z.number(),
});

/** A daemon as a process. It ends when it is disposed of or this process ends. */
export class DaemonProcess {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** From its start to its ready line. */
  readonly readyMs: number;
  /** Settles when it has ended, for any reason. */
  readonly ended: Promise<unknown>;
  readonly #started: Started;

  private constructor(started: Started, ready: z.infer<typeof readyLine>, readyMs: number) {
    this.url = ready.url;
    this.port = ready.port;
    this.pid = ready.pid;
    this.readyMs = readyMs;
    this.ended = once(started.child, "exit");
    this.#started = started;
  }

  /** Starts it and waits until it is ready. Rejects with the daemon's stderr if it does not get ready. */
  static async start(start: DaemonStart): Promise<DaemonProcess> {
    const startedAt = performance.now();
    const started = spawnDaemon(start);
    try {
      const ready = readyLine.parse(JSON.parse(await firstLine(started)));
      return new DaemonProcess(started, ready, performance.now() - startedAt);
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

  /** SIGTERM. Rejects unless it ends by exit code 0. */
  async stop(): Promise<void> {
    const { child } = this.#started;
    await this.#end(() => child.kill("SIGTERM"));
    const { exitCode, signalCode } = child;
    const how = exitCode === null ? `signal ${signalCode}` : `exit code ${exitCode}`;
    if (exitCode !== 0) throw new Error(`the daemon ended by ${how}: ${this.log}`);
  }

  async kill(): Promise<void> {
    await this.#end(this.#started.kill);
  }

  get isRunning(): boolean {
    const { exitCode, signalCode } = this.#started.child;
    return exitCode === null && signalCode === null;
  }

  /** Throws, with its log, if it has ended by itself. */
  requireRunning(): void {
    if (!this.isRunning) throw new Error(`the daemon ended by itself: ${this.log}`);
  }

  /** The end of its log. */
  get log(): string {
    return this.#started.log();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isRunning) await this.kill();
  }

  async #end(end: () => void): Promise<void> {
    const signal = AbortSignal.timeout(STOP_MS_MAX);
    const ended = this.isRunning
      ? once(this.#started.child, "exit", { signal })
      : Promise.resolve();
    end();
    await ended;
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly stdout: Readable;
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
  const kill = cleanAtExit(() => child.kill("SIGKILL"));
  return { child, stdout: child.stdout, log: () => log, kill };
}

// Settings of the caller's environment must not reach the measured daemon.
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("POSTBACKD_"));
  return Object.fromEntries(kept);
}

async function firstLine({ child, stdout }: Started): Promise<string> {
  const lines = createInterface({ input: stdout });
  const said = once(lines, "line", { signal: AbortSignal.timeout(READY_MS_MAX) });
  // Rejects if the program does not exist.
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`it ended with ${code}`);
  });
  const [line] = z.tuple([z.string()]).parse(await Promise.race([said, ended]));
  return line;
}

/** The database of the command line, by name. */
export type AdminPlace = Omit<DaemonStart, "flags"> & { readonly database: string };

/** An account, as `admin account create` prints it. */
export interface NewAccount {
  readonly login: string;
  readonly key: string;
  readonly webhookSecret: string;
}

const createdAccount = z.object({
  webhook_secret: z.string(),
  key: z.object({ key: z.string() }),
});
const createdWorker = z.object({ worker: z.object({ token: z.string() }) });
const createdLink = z.object({ link: z.object({ url: z.string() }) });

export async function createAccount(login: string, place: AdminPlace): Promise<NewAccount> {
  const created = createdAccount.parse(await runAdmin(["account", "create", login], place));
  return { login, key: created.key.key, webhookSecret: created.webhook_secret };
}

/** Creates a worker for the given types, and returns its token. */
export async function createWorker(
  { name, types }: { readonly name: string; readonly types: readonly string[] },
  place: AdminPlace,
): Promise<string> {
  const flags = types.flatMap((type) => ["--type", type]);
  const created = await runAdmin(["worker", "create", name, ...flags], place);
  return createdWorker.parse(created).worker.token;
}

/** Runs an `admin` command and returns the document that it prints. */
async function runAdmin(words: readonly string[], place: AdminPlace): Promise<unknown> {
  const all = ["admin", ...words, "--db", place.database, "--json"];
  const { error, stdout } = await runProgram(all, place);
  if (error !== null) throw error;
  return JSON.parse(stdout);
}

/** How a command ended: `error` is null if it succeeded. */
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

/** Signs the operator in; returns the session's cookie, as `name=value`. */
export async function signInOperator({
  daemon,
  file,
}: {
  readonly daemon: DaemonProcess;
  readonly file: AdminPlace;
}): Promise<string> {
  const { link } = createdLink.parse(await runAdmin(["link"], file));
  const token = new URL(link.url).hash.replace("#link=", "");
  const response = await fetch(`${daemon.url}/v1/session/link`, {
    method: "POST",
    headers: { "content-type": "application/json", "sec-fetch-site": "same-origin" },
    body: JSON.stringify({ token }),
  });
  const [cookie] = response.headers.getSetCookie();
  if (cookie === undefined) throw new Error(`the sign-in responded ${response.status}`);
  return cookie.split(";", 1)[0] ?? "";
}

/** The headers of the dashboard's requests. */
export function pageHeaders(cookie: string): Record<string, string> {
  return { cookie, "x-requested-with": "postbackd", "sec-fetch-site": "same-origin" };
}

// `parked` runs one task every two seconds: its tasks stay queued. The log would fill a pipe that is not read.
const CONFIGURATION = `
[log]
level = "warn"

[types.echo]
runner = "echo"

[types.parked]
command = ["sleep", "2"]
concurrency = 1
`;

/** The common settings of all daemons of a script. */
export interface DaemonPlace {
  readonly program: Program;
  /** Each daemon makes its own folder in it. */
  readonly folder: string;
  /** Returns the URL of an empty database; without it a daemon has a file in its folder. */
  readonly newDatabase?: () => Promise<string>;
}

/** An account and the database of a daemon: what outlives it when it is killed. */
export interface DaemonFile {
  readonly program: Program;
  readonly folder: string;
  /** Absolute path of the database, or its URL. */
  readonly database: string;
  readonly account: NewAccount;
  /** The private addresses that webhooks may go to. */
  readonly allowed: string;
}

/** The differences of a daemon's configuration from the other scripts' daemons. */
export interface DaemonSettings {
  /** 127.0.0.1 unless given. */
  readonly allowed?: string;
  /** Added to the configuration, in TOML. */
  readonly more?: string;
  /** Replaces what all scripts have. */
  readonly base?: string;
}

/** Makes a folder with a configuration, and in it a database with one account. */
export async function createDaemonFile(
  place: DaemonPlace,
  settings: DaemonSettings = {},
): Promise<DaemonFile> {
  const { program } = place;
  const folder = configureFolder(place, settings);
  const database = (await place.newDatabase?.()) ?? join(folder, "postbackd.db");
  const account = await createAccount("bench", { program, folder, database });
  return { program, folder, database, account, allowed: settings.allowed ?? "127.0.0.1" };
}

/** As {@link createDaemonFile}, with a type for workers, and the token of a worker for it. */
export async function createWorkerFile(
  type: string,
  place: DaemonPlace,
): Promise<{ readonly file: DaemonFile; readonly token: string }> {
  const more = `\n[types.${type}]\nrunner = "worker"\nlease = "30s"\n`;
  const file = await createDaemonFile(place, { more });
  return { file, token: await createWorker({ name: "bench", types: [type] }, file) };
}

/** Makes a folder with a configuration alone. */
export function configureFolder(
  { folder }: DaemonPlace,
  { base = CONFIGURATION, more = "" }: DaemonSettings,
): string {
  const own = mkdtempSync(join(folder, "daemon-"));
  writeFileSync(join(own, "postbackd.toml"), `${base}${more}`);
  return own;
}

/** How to start a daemon on that database: on a free port, with all else by default. */
export function daemonStart({ program, folder, database, allowed }: DaemonFile): DaemonStart {
  const flags = ["--db", database, "--port", "0", "--allow-target", allowed];
  return { program, folder, flags };
}

export function startDaemon(file: DaemonFile): Promise<DaemonProcess> {
  return DaemonProcess.start(daemonStart(file));
}

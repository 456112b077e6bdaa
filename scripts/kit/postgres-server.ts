import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  appendFileSync,
  chownSync,
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readlinkSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { DaemonPlace } from "./daemon.ts";
import { queryOnce } from "./database.ts";
import { findFreePort } from "./free-port.ts";
import {
  findPostgres,
  HOW_TO_GET_POSTGRES,
  PostgresGuard,
  serverUser,
  type PostgresBinaries,
} from "./postgres-binaries.ts";
import { listProcesses } from "./processes.ts";
import { until } from "./until.ts";

/** Of postgresql.conf, by name. */
export type PostgresSettings = Readonly<Record<string, string | number>>;

export interface PostgresOptions {
  /** The result of {@link findPostgres} unless given. */
  readonly binaries?: PostgresBinaries;
  /** The parent of its folder: in memory if there is enough, unless given. A benchmark names a disk. */
  readonly parent?: string;
  /** Beside the server's own and before them: those suit many small tests. */
  readonly settings?: PostgresSettings;
  /**
   * A server that runs: the new one is its standby, and follows it from then on. It is made by the other's
   * pg_basebackup, which npm's PostgreSQL does not have.
   */
  readonly standbyOf?: PostgresServer;
  /** The port at which it reaches the server that it follows; that server's own unless given. */
  readonly followAt?: number;
  /** Its port: a free port unless given. */
  readonly port?: number;
  /** Variables of its processes, beside those that they need. */
  readonly env?: NodeJS.ProcessEnv;
}

interface ServerParts {
  readonly binaries: PostgresBinaries;
  readonly folder: string;
  readonly port: number;
  readonly password: string;
  readonly env: NodeJS.ProcessEnv;
}

const MEMORY = "/dev/shm";
const MEMORY_BYTES_MIN = 1024 ** 3;
const START_MS_MAX = 60_000;
const STOP_MS_MAX = 10_000;
const LOG_SHOWN = 4096;

/**
 * A PostgreSQL server of its own, empty, that listens on a unix socket and on a port of 127.0.0.1, with a password for
 * both. `fsync` stays on: postbackd refuses a server without, and in memory it costs nothing. It ends, and its folder is
 * removed, when it is disposed of or this process ends, even by SIGKILL. It does not keep this process from ending.
 */
export class PostgresServer {
  /** Of the superuser, in the database `postgres`, by TCP. It carries the password. */
  readonly url: string;
  /** The same by the unix socket. */
  readonly socketUrl: string;
  readonly port: number;
  readonly major: number;
  /** The folder of the data, the socket and the log. */
  readonly folder: string;
  /** The name of a standby in `synchronous_standby_names` of its primary, and of its slot there. */
  readonly name: string;
  readonly #binaries: PostgresBinaries;
  readonly #user = serverUser();
  readonly #guard: PostgresGuard;
  readonly #password: string;
  readonly #env: NodeJS.ProcessEnv;
  #child: ChildProcess | null = null;

  private constructor({ binaries, folder, port, password, env }: ServerParts) {
    this.folder = folder;
    this.port = port;
    this.name = `server_${port}`;
    this.major = binaries.major;
    this.#binaries = binaries;
    this.#password = password;
    this.#env = env;
    this.#guard = new PostgresGuard(folder);
    const credentials = `postgres://postgres:${password}@`;
    this.url = `${credentials}127.0.0.1:${port}/postgres`;
    this.socketUrl = `${credentials}/postgres?host=${encodeURIComponent(folder)}&port=${port}`;
  }

  /** Makes one and starts it. Rejects, with the end of its log, when it does not get ready. */
  static async start(options: PostgresOptions = {}): Promise<PostgresServer> {
    const { standbyOf: primary = null, parent = defaultParent(), env = {} } = options;
    const binaries = options.binaries ?? (primary === null ? findPostgres() : primary.#binaries);
    if (binaries === null) throw new Error(HOW_TO_GET_POSTGRES);
    const port = options.port ?? (await findFreePort());
    const folder = mkdtempSync(join(parent, "postbackd-postgres-"));
    // A standby has the users of its primary.
    const password = primary === null ? randomBytes(16).toString("hex") : primary.#password;
    const server = new PostgresServer({ binaries, folder, port, password, env });
    try {
      await server.#create(primary, options.followAt);
      server.#configure({ ...server.#ownSettings(), ...options.settings });
      await server.startAgain();
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** The number of the process that all others of the server come from. Throws when the server does not run. */
  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error("the PostgreSQL server does not run");
    return this.#child.pid;
  }

  /** The end of its log, which is gone with its folder. */
  get log(): string {
    return readFileSync(this.#logFile, "utf8").slice(-LOG_SHOWN);
  }

  /** Starts it on the data that {@link kill} or {@link shutDown} left; settings that are given stay. */
  async startAgain(settings: PostgresSettings = {}): Promise<void> {
    this.#configure(settings);
    const child = this.#spawn("postgres", ["-D", this.#data], this.#env);
    this.#child = child;
    child.unref();
    child.once("exit", () => (this.#child = null));
    const isReady = (): boolean => {
      if (this.#child === null) throw new Error(`PostgreSQL did not get ready: ${this.log}`);
      return this.#readyPid() === child.pid;
    };
    const fault = (): string => `PostgreSQL was not ready after ${START_MS_MAX} ms: ${this.log}`;
    await until(isReady, { msMax: START_MS_MAX, everyMs: 10, fault });
  }

  /** Makes it read settings again that need no restart. They count soon after. */
  reload(settings: PostgresSettings): void {
    this.#configure(settings);
    process.kill(this.pid, "SIGHUP");
  }

  /** Makes a primary of a standby. Settles when it takes writes. */
  async promote(): Promise<void> {
    await queryOnce(this.url, "SELECT pg_promote()");
  }

  /** kill -9 of all its processes. The data stays, as after a crash of the machine whose disk lost nothing. */
  async kill(): Promise<void> {
    // The first of them last, which starts no other meanwhile: without it the others would say good-bye.
    this.#child?.kill("SIGSTOP");
    for (const pid of this.#processes().filter((pid) => pid !== this.#child?.pid)) {
      killUnlessGone(pid);
    }
    await this.#end("SIGKILL");
    // While one is left it could not start again.
    const hasEnded = (): boolean => {
      const left = this.#processes();
      for (const pid of left) killUnlessGone(pid);
      return left.length === 0;
    };
    await until(hasEnded, {
      msMax: STOP_MS_MAX,
      everyMs: 5,
      fault: () => `processes of PostgreSQL still run ${STOP_MS_MAX} ms after kill -9`,
    });
  }

  /** Breaks off what is open and ends in order (SIGINT); when that takes too long, as {@link kill}. The data stays. */
  async shutDown(): Promise<void> {
    try {
      await this.#end("SIGINT");
    } catch {
      // A stopped process ignores the signal.
      await this.kill();
    }
  }

  /** Ends it and removes its folder. */
  async stop(): Promise<void> {
    await this.shutDown();
    await this.#guard.finish();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  get #data(): string {
    return join(this.folder, "data");
  }

  get #logFile(): string {
    return join(this.folder, "server.log");
  }

  /** Makes its data: its own, or a copy of its primary's. */
  async #create(primary: PostgresServer | null, followAt = primary?.port): Promise<void> {
    this.#giveToUser(this.folder);
    const child = primary === null ? this.#initialize() : this.#copy(followAt);
    const [code] = child.exitCode === null ? await once(child, "exit") : [child.exitCode];
    if (code !== 0) throw new Error(`no data for PostgreSQL, because of ${code}: ${this.log}`);
  }

  #initialize(): ChildProcess {
    const passwordFile = join(this.folder, "password");
    writeFileSync(passwordFile, this.#password, { mode: 0o600 });
    this.#giveToUser(passwordFile);
    // SCRAM costs both sides 10 ms of processor time for each of some thousand connections (measured); the password is
    // random, and lives as long as the server.
    const access = ["--username=postgres", "--auth=md5", `--pwfile=${passwordFile}`];
    const texts = ["--encoding=UTF8", "--no-locale"];
    return this.#spawn("initdb", ["-D", this.#data, "--no-sync", ...access, ...texts]);
  }

  /** With a slot, in which the primary keeps what it has not sent, and how to follow it in its settings. */
  #copy(port = this.port): ChildProcess {
    const from = ["--host=127.0.0.1", `--port=${port}`, "--username=postgres", "--no-password"];
    const slot = ["--create-slot", `--slot=${this.name}`];
    const args = ["-D", this.#data, "--no-sync", "--checkpoint=fast", "--write-recovery-conf"];
    return this.#spawn("pg_basebackup", [...args, ...from, ...slot], {
      PGPASSWORD: this.#password,
      // Also of the standby's own connection: PostgresProxy reads no negotiation.
      ...{ PGSSLMODE: "disable", PGGSSENCMODE: "disable" },
    });
  }

  #giveToUser(path: string): void {
    if (this.#user !== null) chownSync(path, this.#user.uid, this.#user.gid);
  }

  #ownSettings(): PostgresSettings {
    return {
      cluster_name: this.name,
      listen_addresses: "127.0.0.1",
      port: this.port,
      unix_socket_directories: this.folder,
      max_connections: 200,
      shared_buffers: "32MB",
      // In the server's folder, where nothing of it outlives a kill -9 and the removal.
      dynamic_shared_memory_type: "mmap",
      max_wal_size: "256MB",
      // Its primary's is not a standby's own.
      synchronous_standby_names: "",
    };
  }

  /** Adds to postgresql.conf, where the last of a name counts. */
  #configure(settings: PostgresSettings): void {
    const lines = Object.entries(settings).map(
      ([name, value]) => `${name} = '${String(value).replaceAll("'", "''")}'\n`,
    );
    appendFileSync(join(this.#data, "postgresql.conf"), lines.join(""));
  }

  /** Its output goes to the log: a pipe would fill up, and stop it, while this process is busy. */
  #spawn(program: string, args: readonly string[], more: NodeJS.ProcessEnv = {}): ChildProcess {
    const log = openSync(this.#logFile, "a");
    try {
      const child = spawn(join(this.#binaries.folder, program), args, {
        ...this.#user,
        cwd: this.folder,
        // Of this process's own environment nothing: it may name another server, and hold secrets.
        env: { PATH: process.env["PATH"], LC_ALL: "C", ...more },
        // The signals of a terminal are for this process.
        detached: true,
        stdio: ["ignore", log, log],
      });
      this.#guard.watch(child.pid ?? null);
      child.once("exit", () => this.#guard.watch(null));
      return child;
    } finally {
      closeSync(log);
    }
  }

  /** The process that has written that it takes connections; null while none has. */
  #readyPid(): number | null {
    try {
      const lines = readFileSync(join(this.#data, "postmaster.pid"), "latin1").split("\n");
      return lines[7]?.trim() === "ready" ? Number(lines[0]) : null;
    } catch {
      // It has not come that far.
      return null;
    }
  }

  async #end(how: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    child.ref();
    const ended = once(child, "exit", { signal: AbortSignal.timeout(STOP_MS_MAX) });
    child.kill(how);
    // One that was stopped has to go on for it.
    child.kill("SIGCONT");
    await ended;
  }

  /** All of its processes: they work in the folder of its data. */
  #processes(): readonly number[] {
    const running = listProcesses().filter(({ state }) => state !== "Z" && state !== "X");
    return running.map(({ pid }) => pid).filter((pid) => workingFolder(pid) === this.#data);
  }
}

function workingFolder(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    // It has ended, or belongs to another user.
    return null;
  }
}

function killUnlessGone(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

/** A folder without the cost of fsync, if there is enough memory for a server. */
function defaultParent(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= MEMORY_BYTES_MIN ? MEMORY : tmpdir();
  } catch {
    // Not every system has it.
    return tmpdir();
  }
}

/** A server to measure on, with its data in a folder of `parent`: on the disk on which a file would be. */
export function startBenchServer(parent: string): Promise<PostgresServer> {
  return PostgresServer.start({
    parent,
    settings: { shared_buffers: "512MB", max_wal_size: "4GB" },
  });
}

/** Makes empty databases on a server. */
export function newDatabases({ url }: PostgresServer): Required<Pick<DaemonPlace, "newDatabase">> {
  let count = 0;
  return {
    async newDatabase() {
      const own = new URL(url);
      own.pathname = `/bench_${++count}`;
      await queryOnce(url, `CREATE DATABASE bench_${count}`);
      return own.href;
    },
  };
}

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cpSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { helperProcess } from "../../kit/helper-process.ts";
import { NpmPackages } from "../../kit/npm-packages.ts";
import { cleanAtExit, ScratchFolder } from "../../kit/scratch.ts";
import { until } from "../../kit/until.ts";

const PACKAGES = new NpmPackages(import.meta.dirname, { before: "2026-11-28" });

/** Makes npm install what the programs import, unless it is there, and copies the programs next to it. */
export function installPeers(note: (news: string) => void): void {
  if (!PACKAGES.isInstalled) {
    note("npm installs the peers, once");
    PACKAGES.install();
  }
  const programs = join(PACKAGES.folder, "programs");
  cpSync(join(import.meta.dirname, "programs"), programs, { recursive: true });
}

/** The settings of a peer's processes. */
export interface PeerSettings {
  /** Where its jobs are kept: a socket of Redis, the URL of a PostgreSQL database, or a file. */
  readonly service: string;
  /** The bearer token of a request. */
  readonly key: string;
  /** Signs webhooks. */
  readonly secret: string;
  /** Webhooks under way at a time. */
  readonly concurrency: number;
  /** Jobs that are fetched at a time, by peers that can. */
  readonly batch: number;
}

/** What files of `programs/` export. */
interface PeerProgram {
  /** Serves the API, and returns its port. The response to a post follows the insert into the queue. */
  serve(settings: PeerSettings): Promise<number>;
  /** Runs what is in the queue, and what is added later. */
  work(settings: PeerSettings): Promise<void>;
  /** Settles when the end of every job is recorded. Rejects if one has failed. */
  settle(): Promise<void>;
  /** Of `webhooks.mjs`: sends equal webhooks. */
  sendAll(order: {
    readonly tasks: number;
    readonly task: Readonly<Record<string, unknown>>;
    readonly secret: string;
    readonly concurrency: number;
  }): Promise<void>;
  /** Of `inserts.mjs`: returns rows per second. */
  insert(order: {
    readonly file: string;
    readonly seconds: number;
    readonly rowsPerTransaction: number;
    readonly input: string;
  }): number;
}

class Peer {
  #program: PeerProgram | null = null;

  async load(name: string): Promise<void> {
    const file = pathToFileURL(join(PACKAGES.folder, "programs", name));
    // Each program exports what its callers call.
    this.#program = (await import(file.href)) as PeerProgram;
  }

  serve(settings: PeerSettings): Promise<number> {
    return this.#loaded.serve(settings);
  }

  work(settings: PeerSettings): Promise<void> {
    return this.#loaded.work(settings);
  }

  settle(): Promise<void> {
    return this.#loaded.settle();
  }

  sendAll(order: Parameters<PeerProgram["sendAll"]>[0]): Promise<void> {
    return this.#loaded.sendAll(order);
  }

  insert(order: Parameters<PeerProgram["insert"]>[0]): number {
    return this.#loaded.insert(order);
  }

  get #loaded(): PeerProgram {
    if (this.#program === null) throw new Error("no program was loaded");
    return this.#program;
  }
}

/** A process of a peer. */
export class PeerProcess extends helperProcess(import.meta, Peer) {}

export const HOW_TO_GET_REDIS = "there is no Redis: run 'apt-get install redis-server'";

export function hasRedis(): boolean {
  return spawnSync("redis-server", ["--version"]).status === 0;
}

/** When Redis has its log on disk: before it responds, or once per second. */
export type RedisSync = "always" | "everysec";

const READY_MS_MAX = 10_000;
const LOG_KEPT = 4096;

/**
 * An empty Redis with an append-only file, on a unix socket alone. It ends, and its folder is removed, when it is disposed
 * of or this process ends.
 */
export class RedisServer {
  readonly socket: string;
  readonly #folder: ScratchFolder;
  readonly #child: ChildProcess;
  readonly #kill: () => void;
  #log = "";

  private constructor(parent: string, sync: RedisSync) {
    this.#folder = new ScratchFolder(parent);
    this.socket = join(this.#folder.path, "redis.sock");
    const where = ["--port", "0", "--unixsocket", this.socket, "--dir", this.#folder.path];
    // No snapshots: the append-only file is measured.
    const how = ["--appendonly", "yes", "--appendfsync", sync, "--save", ""];
    this.#child = spawn("redis-server", [...where, ...how], { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#log = (this.#log + text).slice(-LOG_KEPT);
      });
    }
    this.#kill = cleanAtExit(() => this.#child.kill("SIGKILL"));
  }

  /** Settles when it responds; rejects with its log if it does not. */
  static async start(parent: string, sync: RedisSync): Promise<RedisServer> {
    const server = new RedisServer(parent, sync);
    try {
      const fault = (): string => `Redis does not respond: ${server.#log}`;
      await until(() => server.#responds(), { msMax: READY_MS_MAX, fault });
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error("Redis did not start");
    return this.#child.pid;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#hasEnded() ? Promise.resolve() : once(this.#child, "exit");
    this.#kill();
    await ended;
    this.#folder[Symbol.dispose]();
  }

  async #responds(): Promise<boolean> {
    if (this.#hasEnded()) throw new Error(`Redis did not start: ${this.#log}`);
    const socket = connect(this.socket);
    try {
      socket.write("PING\r\n");
      const [said] = await once(socket, "data");
      return String(said).startsWith("+PONG");
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  }

  #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";

import { cleanAtExit } from "./exit-cleanup.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { until } from "./until.ts";

/** How to say that there is none. */
export const HOW_TO_GET_REDIS = "there is no Redis: run 'apt-get install redis-server'";

/** When Redis has its log on disk: before it answers, or once a second. */
export type RedisSync = "always" | "everysec";

const READY_MS_MAX = 10_000;
const LOG_KEPT = 4096;

/** The version of the `redis-server` of this machine, such as `7.0.15`; null where it is not installed. */
export function findRedis(): string | null {
  const { status, stdout } = spawnSync("redis-server", ["--version"], { encoding: "utf8" });
  return status === 0 ? (/v=([\d.]+)/.exec(stdout)?.[1] ?? "of some version") : null;
}

/**
 * A Redis of its own, empty, that keeps what it is told in an append-only file and listens on a unix socket alone. It
 * ends, and its folder is removed, when it is disposed of or this process ends.
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
    // No snapshots: the append-only file is what is measured.
    const how = ["--appendonly", "yes", "--appendfsync", sync, "--save", ""];
    const child = spawn("redis-server", [...where, ...how], { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        this.#log = (this.#log + text).slice(-LOG_KEPT);
      });
    }
    this.#child = child;
    this.#kill = cleanAtExit(() => child.kill("SIGKILL"));
  }

  /** Starts one whose data lies in a folder of `parent`. Settles when it answers; rejects with its log where it does not. */
  static async start(parent: string, sync: RedisSync): Promise<RedisServer> {
    const server = new RedisServer(parent, sync);
    try {
      await until(() => server.#answers(), {
        msMax: READY_MS_MAX,
        fault: () => `Redis does not answer: ${server.#log}`,
      });
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

  async #answers(): Promise<boolean> {
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

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";

import { ROOT } from "../manifest.ts";
import { cleanAtExit } from "./exit-cleanup.ts";
import { findFreePort } from "./free-port.ts";
import { until } from "./until.ts";

/** What to say where there is none. */
export const HOW_TO_GET_HAPROXY = "there is no HAProxy: run 'apt-get install haproxy'";

const CONFIGURATION = join(ROOT, "deploy", "haproxy.cfg");
const READY_MS_MAX = 10_000;
const LOG_KEPT = 4096;

/** What `haproxy -v` says first, such as `HAProxy version 2.6.12`; null where it is not installed. */
export function findHaproxy(): string | null {
  const { status, stdout } = spawnSync("haproxy", ["-v"], { encoding: "utf8" });
  return status === 0 ? (/HAProxy version [\d.]+/.exec(stdout)?.[0] ?? "HAProxy") : null;
}

/** HAProxy with the configuration in deploy/. Gone when it is disposed of or this process ends. */
export class Haproxy {
  readonly url: string;
  readonly #port: number;
  readonly #child: ChildProcess;
  readonly #kill: () => void;
  #log = "";

  private constructor(port: number, daemons: readonly number[]) {
    this.url = `http://127.0.0.1:${port}`;
    this.#port = port;
    const servers = daemons.map((daemon, i) => [`NODE_${i + 1}`, `127.0.0.1:${daemon}`]);
    const child = spawn("haproxy", ["-db", "-f", CONFIGURATION], {
      env: {
        PATH: process.env["PATH"],
        BIND: `127.0.0.1:${port}`,
        ...Object.fromEntries(servers),
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        this.#log = (this.#log + text).slice(-LOG_KEPT);
      });
    }
    this.#child = child;
    this.#kill = cleanAtExit(() => child.kill("SIGKILL"));
  }

  /** Starts it before three daemons, given by their ports on 127.0.0.1. Settles when it listens. */
  static async start(daemons: readonly number[]): Promise<Haproxy> {
    const haproxy = new Haproxy(await findFreePort(), daemons);
    try {
      await until(() => haproxy.#listens(), {
        msMax: READY_MS_MAX,
        fault: () => `HAProxy does not listen: ${haproxy.log}`,
      });
      return haproxy;
    } catch (error) {
      await haproxy[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The end of what it has said: which daemons are down, and up again. */
  get log(): string {
    return this.#log;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#hasEnded() ? Promise.resolve() : once(this.#child, "exit");
    this.#kill();
    await ended;
  }

  async #listens(): Promise<boolean> {
    if (this.#hasEnded()) throw new Error(`HAProxy did not start: ${this.log}`);
    const socket = connect({ host: "127.0.0.1", port: this.#port });
    try {
      await once(socket, "connect");
      return true;
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

import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import type { DaemonProcess } from "../kit/daemon.ts";
import { childrenOf, listProcesses } from "../kit/processes.ts";
import { listen } from "../kit/receiver.ts";
import type { LeaseRule } from "./lease-judge.ts";

/** The types of workers, with all that the checks count on; how the file spells it follows from this. */
export const LEASE_TYPES: Readonly<
  Record<string, LeaseRule & { readonly retries: number; readonly concurrency: number }>
> = {
  work: { leaseMs: 2000, timeoutMs: 10_000, retries: 2, concurrency: 2000 },
  brief: { leaseMs: 1000, timeoutMs: 5000, retries: 1, concurrency: 60 },
};

/** The consequence of a failed run of the type `command`. */
export const COMMAND_RETRIES = 1;

/** Marks every process that a daemon of the soak starts, by a variable of its environment. */
export const MARK = "POSTBACKD_SOAK_MARK";

// Every start of a command leaves a line here: the id of its task.
const STARTS = "starts";

// How often each mode is posted is in client.ts.
const SCRIPT = `#!/bin/sh
read -r line
id=\${line#*'"id":"'}; id=\${id%%'"'*}
nonce=\${line#*'"nonce":"'}; nonce=\${nonce%%'"'*}
echo "$id" >> ${STARTS}
case $line in
  *'"mode":"fail"'*) echo broken >&2; exit 3 ;;
  *'"mode":"hang"'*) sleep 600 ;;
  *'"mode":"stubborn"'*) trap '' TERM; while :; do sleep 1; done ;;
  *'"mode":"fork"'*) sleep 600 & ;;
  *'"mode":"flood"'*) exec head -c 6000000 /dev/zero ;;
  *'"mode":"slow"'*) sleep 1 ;;
esac
printf '{"done":"%s"}' "$nonce"
`;

/** The configuration of every type, in TOML, beside what all scripts have. */
export function soakSettings({
  serviceUrl,
  mark,
}: {
  readonly serviceUrl: string;
  readonly mark: string;
}): string {
  return `
[webhooks]
retry_after = ["1s", "2s", "3s"]
${Object.entries(LEASE_TYPES).map(leaseType).join("")}
[types.command]
command = ["sh", "command.sh"]
env = { ${MARK} = ${JSON.stringify(mark)} }
timeout = "3s"
retries = ${COMMAND_RETRIES}
concurrency = 12

[types.http]
url = ${JSON.stringify(serviceUrl)}
timeout = "60s"
concurrency = 16
`;
}

/** Writes what the type `command` runs into the folder of the daemon's file. */
export function writeCommand(folder: string): void {
  writeFileSync(join(folder, "command.sh"), SCRIPT);
  writeFileSync(join(folder, STARTS), "");
}

/** How often a command was started for each task, by its own word. */
export function countStarts(folder: string): ReadonlyMap<string, number> {
  const starts = new Map<string, number>();
  for (const id of readFileSync(join(folder, STARTS), "utf8").split("\n")) {
    if (id !== "") starts.set(id, (starts.get(id) ?? 0) + 1);
  }
  return starts;
}

function leaseType([name, type]: [string, (typeof LEASE_TYPES)[string]]): string {
  const { leaseMs, timeoutMs, retries, concurrency } = type;
  return `
[types.${name}]
runner = "worker"
lease = "${leaseMs / 1000}s"
timeout = "${timeoutMs / 1000}s"
retries = ${retries}
concurrency = ${concurrency}
`;
}

const run = z.object({
  id: z.string(),
  input: z.object({
    mode: z.enum(["ok", "slow", "busy", "reset", "huge", "refuse"]),
    nonce: z.string(),
  }),
});

// An address that nothing else listens on: the port stays free while the service is dead.
const HOST = "127.77.0.1";
const SLOW_MS = 1500;
const HUGE = Buffer.alloc(6_000_000, 0x78);
const REBIND_MS = 50;

/**
 * The operator's service behind the type `http`: it is slow, busy, resets connections, answers too much, or refuses, as
 * the task's input says; and it dies and comes back.
 */
export class HttpService {
  requests = 0;
  readonly #came = new Map<string, number>();
  readonly #server = createServer((request, response) => {
    // An error here is a connection that the service or the daemon has ended.
    this.#serve(request, response).catch(() => response.destroy());
  });
  #port = 0;

  static async open(): Promise<HttpService> {
    const service = new HttpService();
    await service.#listen();
    return service;
  }

  get url(): string {
    return `http://${HOST}:${this.#port}/run`;
  }

  /** Dies with all its connections, and is back on the same port when this settles. */
  async die(forMs: number): Promise<void> {
    await this[Symbol.asyncDispose]();
    await sleep(forMs);
    await this.#listen();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #listen(): Promise<void> {
    for (;;) {
      // Some other program may hold the port for a moment.
      const port = await listen(this.#server, { host: HOST, port: this.#port }).catch(() => null);
      if (port !== null) {
        this.#port = port;
        return;
      }
      await sleep(REBIND_MS);
    }
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { id, input } = run.parse(JSON.parse(await text(request)));
    const before = this.#came.get(id) ?? 0;
    this.#came.set(id, before + 1);
    this.requests++;
    const done = JSON.stringify({ done: input.nonce });
    switch (input.mode) {
      case "slow":
        await sleep(SLOW_MS);
        break;
      case "busy":
        if (before === 0) response.writeHead(503, { "retry-after": "1" }).end();
        else if (before === 1) response.writeHead(429).end();
        break;
      case "reset":
        if (before === 0) request.socket.resetAndDestroy();
        break;
      case "huge":
        response.end(HUGE);
        return;
      case "refuse":
        response.writeHead(422).end("no");
        return;
      case "ok":
    }
    if (!response.writableEnded && !response.destroyed) {
      response.writeHead(200, { "content-type": "application/json" }).end(done);
    }
  }
}

/**
 * The processes of this machine whose environment carries this mark: what the daemons of a soak have started, and what
 * that has started. Each is identified by its number and its start time, which no other process will ever have.
 */
export function markedProcesses(mark: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { pid, state, startTime } of listProcesses()) {
    const environment = readOrEmpty(`/proc/${pid}/environ`).split("\0");
    if (environment.includes(`${MARK}=${mark}`) && !"ZX".includes(state)) {
      found.add(`${pid} of ${startTime}`);
    }
  }
  return found;
}

/** Ends all that carry this mark. */
export function endMarked(mark: string): void {
  for (const each of markedProcesses(mark)) signalProcess(Number.parseInt(each), "SIGKILL");
}

/**
 * kill -9 for the daemon and for what it has started, before that can end what it has started in turn: commands are
 * left behind, and the next daemon has to find them.
 */
export async function killWithChildren(daemon: DaemonProcess): Promise<void> {
  const children = childrenOf(daemon.pid).map(({ pid }) => pid);
  for (const pid of children) signalProcess(pid, "SIGSTOP");
  await daemon.kill();
  for (const pid of children) signalProcess(pid, "SIGKILL");
}

function signalProcess(pid: number, signal: "SIGSTOP" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended by itself.
  }
}

// It ended meanwhile, or belongs to another user.
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

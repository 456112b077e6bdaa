import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { helperProcess } from "../kit/helper-process.ts";
import type { HttpMessage } from "../kit/http-messages.ts";
import { EMPTY_ANSWERS, MessageServer } from "../kit/message-server.ts";
import { readCompletedAt, toWebhook } from "../kit/webhook-receiver.ts";
import { NUMBERS, bodyText, chunked } from "./attack.ts";
import { openNameServer } from "./name-server.ts";

/** The behaviour of a host, by the path of the request. */
export const HANGS = "/hangs";
export const SLOW = "/slow";
export const ANSWERS = "/answers";
/** Services of `http` types: results in chunks of one byte, and results of numbers that are dear to read. */
export const IN_CHUNKS = "/in-chunks";
export const OF_NUMBERS = "/of-numbers";

const SLOW_MS = 300;
const LOOK_MS = 50;
const OK = EMPTY_ANSWERS[200];
const JSON_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
const ZEROS = bodyText({ ...NUMBERS, element: "0,", bytes: 1_000_000 });
const CHUNKS = `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n${chunked(ZEROS)}`;
const LARGE = bodyText({ ...NUMBERS, bytes: 4_000_000 });

class Inbox {
  readonly #latencies = new Map<string, number>();
  readonly #counts = new Map<string, number>();

  /** Opens the hosts' port and the name server's. */
  async open(): Promise<{ readonly port: number; readonly namePort: number }> {
    const { port } = await MessageServer.open(
      (message, { socket }) => this.#take(message, socket),
      { host: "0.0.0.0", backlog: 4096 },
    );
    return { port, namePort: await openNameServer() };
  }

  /** How many webhooks have come to a path. */
  count(path: string): number {
    return this.#counts.get(path) ?? 0;
  }

  /**
   * How long each of these tasks' webhooks took from completion to arrival, in milliseconds; null for one that has not
   * come.
   */
  latencies(taskIds: readonly string[]): readonly (number | null)[] {
    return taskIds.map((id) => this.#latencies.get(id) ?? null);
  }

  #take(message: HttpMessage, socket: Socket): void {
    const path = message.head.split(" ", 2)[1] ?? "";
    this.#counts.set(path, this.count(path) + 1);
    if (path === IN_CHUNKS) socket.write(CHUNKS);
    if (path === OF_NUMBERS) {
      socket.write(`${JSON_HEAD}Content-Length: ${LARGE.length}\r\n\r\n${LARGE}`);
    }
    if (path === SLOW) setTimeout(() => socket.write(OK), SLOW_MS);
    if (path !== ANSWERS) return;
    const webhook = toWebhook(message);
    socket.write(OK);
    if (webhook === null) return;
    const completedAt = readCompletedAt(webhook.body.toString("latin1"));
    this.#latencies.set(webhook.taskId, Date.now() - completedAt);
  }
}

/** Receivers on all loopback addresses, the name server that knows their names, and the services, in one process. */
export class Hosts extends helperProcess(import.meta, Inbox) {
  /** As {@link Inbox.latencies}, when all have come or `msMax` are over. */
  async latencies(taskIds: readonly string[], msMax: number): Promise<readonly (number | null)[]> {
    const until = performance.now() + msMax;
    for (;;) {
      const latenciesMs = await this.ask("latencies", taskIds);
      if (!latenciesMs.includes(null) || performance.now() > until) return latenciesMs;
      await sleep(LOOK_MS);
    }
  }
}

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { readCompletedAt } from "../deliveries/tag.ts";
import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import { HttpMessages, type HttpMessage } from "../kit/http-messages.ts";
import { toWebhook } from "../kit/webhook-receiver.ts";
import { chunked } from "./chunks.ts";
import { openNameServer } from "./name-server.ts";

/** What a host does with a request, by the path that it goes to. */
export const HANGS = "/hangs";
export const SLOW = "/slow";
export const ANSWERS = "/answers";
/** Services of `http` types: results in chunks of one byte, and results of numbers that are dear to read. */
export const IN_CHUNKS = "/in-chunks";
export const OF_NUMBERS = "/of-numbers";

const SLOW_MS = 300;
const LOOK_MS = 50;
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const JSON_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
const CHUNKS = `${JSON_HEAD}Transfer-Encoding: chunked\r\n\r\n${chunked(numbers(1_000_000, "0,"))}`;
const NUMBERS = numbers(4_000_000, "1e9,");

const order = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("open") }),
  z.object({ kind: z.literal("arrived"), taskIds: z.array(z.string()).readonly() }),
  z.object({ kind: z.literal("count"), path: z.string() }),
]);

const opened = z.object({ port: z.number(), namePort: z.number() });
const arrived = z.object({ latenciesMs: z.array(z.number().nullable()) });
const counted = z.object({ count: z.number() });

/** Receivers on all loopback addresses, the name server that knows their names, and the services, in one process. */
export class Hosts {
  readonly #helper = new HelperProcess(new URL(import.meta.url));
  #last: Promise<unknown> = Promise.resolve();

  /** Opens the hosts' port and the name server's. */
  async open(): Promise<z.infer<typeof opened>> {
    return opened.parse(await this.#ask({ kind: "open" }));
  }

  /**
   * How long each of these tasks' webhooks took from completion to arrival, in milliseconds; null for one that has not
   * come within `msMax` from now.
   */
  async latencies(taskIds: readonly string[], msMax: number): Promise<readonly (number | null)[]> {
    const until = performance.now() + msMax;
    for (;;) {
      const { latenciesMs } = arrived.parse(await this.#ask({ kind: "arrived", taskIds }));
      if (!latenciesMs.includes(null) || performance.now() > until) return latenciesMs;
      await sleep(LOOK_MS);
    }
  }

  /** How many webhooks have come to a path. */
  async count(path: string): Promise<number> {
    return counted.parse(await this.#ask({ kind: "count", path })).count;
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }

  /** One question after the other: answers do not say what they answer. */
  #ask(message: z.infer<typeof order>): Promise<unknown> {
    const answer = this.#last.then(() => this.#helper.ask(message));
    this.#last = answer.catch(() => {});
    return answer;
  }
}

class Inbox {
  readonly #latencies = new Map<string, number>();
  readonly #counts = new Map<string, number>();

  take(socket: Socket, message: HttpMessage): void {
    const path = message.head.split(" ", 2)[1] ?? "";
    this.#counts.set(path, this.count(path) + 1);
    if (path === IN_CHUNKS) socket.write(CHUNKS);
    if (path === OF_NUMBERS) {
      socket.write(`${JSON_HEAD}Content-Length: ${NUMBERS.length}\r\n\r\n${NUMBERS}`);
    }
    if (path === SLOW) setTimeout(() => socket.write(OK), SLOW_MS);
    if (path !== ANSWERS) return;
    const webhook = toWebhook(message);
    socket.write(OK);
    if (webhook === null) return;
    const completedAt = readCompletedAt(webhook.body.toString("latin1"));
    this.#latencies.set(webhook.taskId, Date.now() - completedAt);
  }

  count(path: string): number {
    return this.#counts.get(path) ?? 0;
  }

  latencies(taskIds: readonly string[]): (number | null)[] {
    return taskIds.map((id) => this.#latencies.get(id) ?? null);
  }
}

async function listen(inbox: Inbox): Promise<number> {
  const server = createServer({ noDelay: true }, (socket) => {
    const messages = new HttpMessages();
    socket.on("data", (chunk: Buffer) =>
      messages.read(chunk, (message) => inbox.take(socket, message)),
    );
    // A sender that gives an attempt up resets the connection.
    socket.on("error", () => socket.destroy());
  });
  server.listen({ port: 0, host: "0.0.0.0", backlog: 4096 });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return address.port;
}

function numbers(bytes: number, element: string): string {
  return `[${element.repeat(Math.floor((bytes - 3) / element.length))}0]`;
}

function answerOrders(): void {
  const inbox = new Inbox();
  answerMessages(async (message) => {
    const asked = order.parse(message);
    switch (asked.kind) {
      case "open":
        return { port: await listen(inbox), namePort: await openNameServer() };
      case "arrived":
        return { latenciesMs: inbox.latencies(asked.taskIds) };
      case "count":
        return { count: inbox.count(asked.path) };
    }
  });
}

if (import.meta.main) answerOrders();

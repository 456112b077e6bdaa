import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { listen } from "../kit/message-server.ts";

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
  /** How many requests it got. */
  requests = 0;
  /** How often each task came. */
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

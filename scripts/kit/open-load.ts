import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { Durations, type Spread } from "./durations.ts";
import { HttpMessages, type HttpMessage } from "./http-messages.ts";
import { postRefusal } from "./request.ts";

/** Requests that are sent at a steady rate, whether those before them have been answered or not. */
export interface OpenLoad {
  /** On 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  readonly perSecond: number;
  /** When the first request is due, and the time before which the last is due, in epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** The request that is due at this time, exactly as sent. */
  readonly requestAt: (at: number, index: number) => string;
}

/** The result: every request was answered 200. */
export interface OpenLoadEnd {
  readonly posted: number;
  /** From the time a request was to be sent to its answer. */
  readonly answers: Spread;
}

// A load that falls behind by more than this measures the load generator.
const BEHIND_MS_MAX = 2000;
const CONNECTED_MS_MAX = 5000;

/**
 * Sends the requests of {@link OpenLoad} over kept connections, each at its time; when all connections wait for answers, it
 * waits its turn, and that counts as latency. Rejects when an answer is not 200 or refuses a task, and when the server
 * or this process cannot keep the rate.
 */
export async function runOpenLoad(load: OpenLoad): Promise<OpenLoadEnd> {
  const sockets = await connectAll(load);
  try {
    return await new Sending(load, sockets).run();
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

async function connectAll({ port, connections }: OpenLoad): Promise<readonly Socket[]> {
  const signal = AbortSignal.timeout(CONNECTED_MS_MAX);
  const sockets = Array.from({ length: connections }, () => {
    return connect({ host: "127.0.0.1", port, noDelay: true });
  });
  await Promise.all(sockets.map((socket) => once(socket, "connect", { signal })));
  return sockets;
}

interface Waiting {
  readonly at: number;
  readonly index: number;
}

class Sending {
  readonly #load: OpenLoad;
  readonly #idle: Socket[] = [];
  readonly #waiting: Waiting[] = [];
  /** When the request that a connection carries was to be sent. */
  readonly #sentFor = new Map<Socket, number>();
  readonly #answers = new Durations();
  readonly #sockets: readonly Socket[];
  #fault: Error | null = null;

  constructor(load: OpenLoad, sockets: readonly Socket[]) {
    this.#load = load;
    this.#sockets = sockets;
  }

  async run(): Promise<OpenLoadEnd> {
    const { from, to, perSecond } = this.#load;
    const total = Math.round(((to - from) * perSecond) / 1000);
    for (const socket of this.#sockets) this.#listen(socket);
    for (let index = 0; index < total;) {
      const now = Date.now();
      for (; index < total; index++) {
        const at = from + (index * 1000) / perSecond;
        if (at > now) break;
        this.#waiting.push({ at, index });
      }
      this.#send();
      this.#require(now);
      await sleep(1);
    }
    while (this.#answers.count < total) {
      this.#require(Date.now());
      await sleep(1);
    }
    return { posted: total, answers: this.#answers.spread };
  }

  #listen(socket: Socket): void {
    const messages = new HttpMessages();
    socket.on("data", (chunk: Buffer) =>
      messages.read(chunk, (answer) => this.#take(socket, answer)),
    );
    socket.on("error", (error) => (this.#fault ??= error));
    socket.on("close", () => (this.#fault ??= new Error("the server closed a connection")));
    this.#idle.push(socket);
  }

  #take(socket: Socket, answer: HttpMessage): void {
    const at = this.#sentFor.get(socket) ?? Number.NaN;
    this.#sentFor.delete(socket);
    this.#fault ??= postRefusal(answer);
    this.#answers.add(Date.now() - at);
    this.#idle.push(socket);
    this.#send();
  }

  #send(): void {
    while (this.#waiting.length > 0) {
      // The one that has been idle longest: the server closes connections that nobody uses.
      const socket = this.#idle.shift();
      if (socket === undefined) return;
      const { at, index } = this.#waiting.shift() ?? { at: 0, index: 0 };
      this.#sentFor.set(socket, at);
      socket.write(this.#load.requestAt(at, index));
    }
  }

  #require(now: number): void {
    if (this.#fault !== null) throw this.#fault;
    const oldest = Math.min(this.#waiting[0]?.at ?? now, ...this.#sentFor.values());
    if (now - oldest <= BEHIND_MS_MAX) return;
    const { perSecond } = this.#load;
    throw new Error(
      `the rate of ${perSecond} requests a second was not kept: one is ${(now - oldest).toFixed(0)} ms behind`,
    );
  }
}

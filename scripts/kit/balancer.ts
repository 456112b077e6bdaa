import { once } from "node:events";
import { createServer, request as ask, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";

import { listen } from "./message-server.ts";

// Of one connection each. A daemon is asked again at the next request.
const HOP_BY_HOP = new Set(["connection", "keep-alive", "proxy-connection", "upgrade"]);

// As deploy/haproxy.cfg has it, but for the second look.
const CHECK_MS = 1000;

/**
 * What stands before the daemons of a cluster, on a port of 127.0.0.1: gives each request to another of them, in turn.
 * One that says it is not ready gets none unless all say so, one that refuses the connection is passed over; a request
 * that a daemon has taken is never sent to a second one, and what breaks there breaks here too.
 */
export class Balancer {
  readonly port: number;
  /** Requests that nobody would take. */
  refused = 0;
  readonly #server;
  readonly #sockets = new Set<Socket>();
  #targets: readonly number[] = [];
  /** Of these those that did not say that they are ready when they were asked last. */
  #unready: ReadonlySet<number> = new Set();
  #next = 0;
  readonly #checks: NodeJS.Timeout;

  private constructor(server: ReturnType<typeof createServer>, port: number) {
    this.#server = server;
    this.port = port;
    this.#checks = setInterval(() => void this.#check(), CHECK_MS);
    this.#checks.unref();
  }

  static async open(): Promise<Balancer> {
    const server = createServer();
    // Only the daemons decide how long a request may take.
    server.requestTimeout = 0;
    server.headersTimeout = 0;
    const balancer = new Balancer(server, await listen(server));
    server.on("connection", (socket: Socket) => {
      balancer.#sockets.add(socket);
      socket.once("close", () => balancer.#sockets.delete(socket));
    });
    server.on("request", (request, response) => void balancer.#serve(request, response));
    // A client that goes away in the middle of a request.
    server.on("clientError", (_error, socket) => socket.destroy());
    return balancer;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Who gets the requests from now on, by their ports. */
  direct(targets: readonly number[]): void {
    this.#targets = targets;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#checks);
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #check(): Promise<void> {
    const asked = this.#targets;
    const answers = await Promise.all(asked.map((port) => isReady(port)));
    this.#unready = new Set(asked.filter((_, i) => answers[i] === false));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const socket = await this.#reach();
    if (socket === null) {
      this.refused++;
      response.destroy();
      return;
    }
    forward({ request, response, socket });
  }

  /** A connection to the next daemon that takes one; null when none does. */
  async #reach(): Promise<Socket | null> {
    const ready = this.#targets.filter((port) => !this.#unready.has(port));
    const targets = ready.length > 0 ? ready : this.#targets;
    for (const _ of targets) {
      const port = targets[this.#next++ % targets.length] ?? 0;
      const socket = connect({ host: "127.0.0.1", port, noDelay: true });
      try {
        await once(socket, "connect");
        return socket;
      } catch {
        socket.destroy();
      }
    }
    return null;
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(CHECK_MS);
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal });
    await answer.text();
    return answer.status === 200;
  } catch {
    return false;
  }
}

interface Forwarded {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** To the daemon. */
  readonly socket: Socket;
}

function forward({ request, response, socket }: Forwarded): void {
  const { method, url: path } = request;
  const headers = ownHeaders(request.rawHeaders);
  const asked = ask({ method, path, headers, createConnection: () => socket });
  const breakOff = (): void => {
    asked.destroy();
    response.destroy();
  };
  asked.once("response", (answer) => {
    response.writeHead(answer.statusCode ?? 0, answer.statusMessage, ownHeaders(answer.rawHeaders));
    // Of a feed the first bytes may be long in coming.
    response.flushHeaders();
    answer.once("error", breakOff);
    answer.pipe(response);
  });
  asked.once("error", breakOff);
  request.once("error", breakOff);
  response.once("close", () => {
    if (!response.writableFinished) breakOff();
  });
  request.pipe(asked);
}

/** Names and values in turn, as they came, without those that are about one connection. */
function ownHeaders(raw: readonly string[]): string[] {
  return raw.filter((_, i) => !HOP_BY_HOP.has((raw[i - (i % 2)] ?? "").toLowerCase()));
}

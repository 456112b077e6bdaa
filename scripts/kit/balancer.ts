import { once } from "node:events";
import { createServer, request as ask, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";

import { listen } from "./message-server.ts";

// Of one connection each. A daemon is asked again at the next request.
const HOP_BY_HOP = new Set(["connection", "keep-alive", "proxy-connection", "upgrade"]);

// As deploy/haproxy.cfg has it, but for the second look.
const CHECK_MS = 1000;

/** Where a daemon is reached. */
export interface Target {
  readonly host: string;
  readonly port: number;
}

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
  #targets: readonly Target[] = [];
  /** The addresses of those that did not say that they are ready when they were asked last. */
  readonly #unready = new Set<string>();
  #next = 0;
  readonly #checks: NodeJS.Timeout;

  private constructor(server: ReturnType<typeof createServer>, port: number) {
    this.#server = server;
    this.port = port;
    this.#checks = setInterval(() => {
      for (const target of this.#targets) void this.#check(target);
    }, CHECK_MS);
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

  /** Who gets the requests from now on. */
  direct(targets: readonly Target[]): void {
    this.#targets = targets;
    for (const place of this.#unready) if (!this.#has(place)) this.#unready.delete(place);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#checks);
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Each by itself: one that answers late holds up no news of another. */
  async #check(target: Target): Promise<void> {
    const state = await stateOf(target);
    const place = placeOf(target);
    if (state === "ready") this.#unready.delete(place);
    if (state === "not ready" && this.#has(place)) this.#unready.add(place);
  }

  #has(place: string): boolean {
    return this.#targets.some((target) => placeOf(target) === place);
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
    const ready = this.#targets.filter((target) => !this.#unready.has(placeOf(target)));
    const targets = ready.length > 0 ? ready : this.#targets;
    for (const _ of targets) {
      const target = targets[this.#next++ % targets.length];
      if (target === undefined) break;
      const socket = connect({ host: target.host, port: target.port, noDelay: true });
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

// Whoever directs makes new targets of the same addresses.
function placeOf({ host, port }: Target): string {
  return `${host}:${port}`;
}

/** One that answers late is taken for what it was: on a busy machine that is no news of it. */
async function stateOf({ host, port }: Target): Promise<"ready" | "not ready" | "late"> {
  const signal = AbortSignal.timeout(CHECK_MS);
  try {
    const answer = await fetch(`http://${host}:${port}/readyz`, { signal });
    await answer.text();
    return answer.status === 200 ? "ready" : "not ready";
  } catch {
    return signal.aborted ? "late" : "not ready";
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
  const headers = [...ownHeaders(request.rawHeaders), ...(hasBody(request) ? [] : NO_BODY)];
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

// Else a request without a body would be sent on with an empty one in chunks.
const NO_BODY = ["content-length", "0"];

function hasBody({ method = "GET", headers }: IncomingMessage): boolean {
  const isSaid =
    headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
  return isSaid || method === "GET" || method === "HEAD";
}

/** Names and values in turn, as they came, without those that are about one connection. */
function ownHeaders(raw: readonly string[]): string[] {
  return raw.filter((_, i) => !HOP_BY_HOP.has((raw[i - (i % 2)] ?? "").toLowerCase()));
}

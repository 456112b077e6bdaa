import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Server as TcpServer, Socket } from "node:net";
import type { TestContext } from "node:test";

/** One request as it arrived. */
export interface ReceivedRequest {
  readonly method: string;
  /** The request target, character for character as it stood on the request line. */
  readonly url: string;
  /** Names in lower case; a repeated header's values are joined with ", ". */
  readonly headers: Readonly<Record<string, string>>;
  /** Names and values in turn, as they were written. */
  readonly rawHeaders: readonly string[];
  readonly rawBody: Buffer;
  /** Epoch milliseconds by the machine's clock, when the body was complete. */
  readonly receivedAt: number;
  /** 1 for the receiver's first connection, and so on: equal numbers mean a reused connection. */
  readonly connection: number;
}

/** How the receiver responds. */
export type Reply =
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string | Uint8Array;
    }
  /** Waits for `until`, then does `reply`. See `createGate`. */
  | { readonly kind: "held"; readonly until: Promise<unknown>; readonly reply: Reply }
  /** Keeps the connection without a response. */
  | { readonly kind: "hang" }
  /** Writes `bytes` as they are, no HTTP added; `end` closes or resets the connection after them. */
  | { readonly kind: "raw"; readonly bytes: string | Uint8Array; readonly end?: boolean | "reset" }
  /** Writes `head`, then one byte of `bytes` every `everyMs`, repeatedly. */
  | {
      readonly kind: "drip";
      readonly head?: string;
      readonly bytes: string;
      readonly everyMs: number;
    }
  /** Writes `head`, then `bytes` repeatedly without pauses. */
  | { readonly kind: "flood"; readonly head?: string; readonly bytes: string }
  /** Closes the connection without a response. */
  | { readonly kind: "close" }
  /** Resets the connection (RST). */
  | { readonly kind: "reset" };

/** A reply, or a function of the request; `index` counts from 0. */
export type Script = Reply | ((request: ReceivedRequest, index: number) => Reply);

export interface ReceiverOptions {
  /** By default 204. */
  readonly reply?: Script;
  /** A loopback address, by default 127.0.0.1. */
  readonly host?: string;
  /** By default a free port. */
  readonly port?: number;
  /** PEM texts for TLS. */
  readonly tls?: { readonly key: string; readonly cert: string };
}

export interface Receiver {
  readonly host: string;
  readonly port: number;
  /** Everything received so far, oldest first. */
  readonly requests: readonly ReceivedRequest[];
  /** Connections accepted so far. */
  readonly connectionsSeen: number;
  /** `http://host:port` + `path` (https with `tls`). */
  url(path?: string): string;
  /** Sets the reply to later requests. */
  answer(reply: Script): void;
  /** Sets one reply for each of the next requests. The reply of `answer` follows. */
  answerNext(...replies: readonly Script[]): void;
  /** The oldest request that `next` has not returned yet. */
  next(): Promise<ReceivedRequest>;
  /** All requests, as soon as there are at least `count`. */
  waitFor(count: number): Promise<readonly ReceivedRequest[]>;
  /** Resolves when no connection is open. */
  whenDisconnected(): Promise<void>;
  /** Closes the receiver and every connection to it. Runs by itself after the test. */
  close(): Promise<void>;
}

// A wait fails with a message instead of the test runner's time-out.
const WAIT_MS_MAX = 30_000;

/** Starts a receiver of webhooks on a loopback address. It is closed after the test. */
export async function startReceiver(
  t: TestContext,
  options: ReceiverOptions = {},
): Promise<Receiver> {
  const receiver = new ScriptedReceiver(options);
  t.after(() => receiver.close());
  await receiver.listen();
  return receiver;
}

/** A promise and the function that resolves it: `{ kind: "held", until: gate.opened, … }`. */
export interface Gate {
  readonly opened: Promise<void>;
  open(): void;
}

export function createGate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

interface OpenConnection {
  readonly socket: Socket;
  /** 1 for the first. */
  readonly number: number;
}

class ScriptedReceiver implements Receiver {
  readonly host: string;
  port = 0;
  readonly requests: ReceivedRequest[] = [];
  connectionsSeen = 0;
  readonly #server: Server;
  readonly #scheme: string;
  readonly #portWanted: number;
  // TCP connections by the port at their other end, which a TLS socket over one of them shares.
  readonly #connections = new Map<number, OpenConnection>();
  readonly #stops = new Set<() => void>();
  readonly #watches = new Set<() => void>();
  #script: Script;
  #scriptsNext: Script[] = [];
  #handedOut = 0;

  constructor(options: ReceiverOptions) {
    this.host = toLoopback(options.host);
    this.#portWanted = options.port ?? 0;
    this.#script = options.reply ?? { kind: "status", status: 204 };
    this.#scheme = options.tls === undefined ? "http" : "https";
    const listener = (request: IncomingMessage, response: ServerResponse): void =>
      void this.#serve(request, response);
    this.#server =
      options.tls === undefined
        ? createHttpServer(listener)
        : createHttpsServer({ ...options.tls }, listener);
    // The sender closes connections.
    this.#server.keepAliveTimeout = 0;
    this.#server.on("connection", (socket: Socket) => this.#admit(socket));
    this.#server.on("tlsClientError", ignoreResets);
  }

  async listen(): Promise<void> {
    this.port = await listen(this.#server, { host: this.host, port: this.#portWanted });
  }

  url(path = "/"): string {
    const host = this.host.includes(":") ? `[${this.host}]` : this.host;
    return `${this.#scheme}://${host}:${this.port}${path}`;
  }

  answer(reply: Script): void {
    this.#script = reply;
  }

  answerNext(...replies: readonly Script[]): void {
    this.#scriptsNext.push(...replies);
  }

  async next(): Promise<ReceivedRequest> {
    const index = this.#handedOut++;
    const requests = await this.waitFor(index + 1);
    const request = requests[index];
    assert(request !== undefined);
    return request;
  }

  async waitFor(count: number): Promise<readonly ReceivedRequest[]> {
    await this.#until(
      () => this.requests.length >= count,
      () => `${count} requests were expected and ${this.requests.length} arrived`,
    );
    return this.requests;
  }

  whenDisconnected(): Promise<void> {
    return this.#until(
      () => this.#connections.size === 0,
      () => `${this.#connections.size} connections are still open`,
    );
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) stop();
    for (const { socket } of this.#connections.values()) socket.destroy();
    await closeServer(this.#server);
  }

  #until(isMet: () => boolean, complaint: () => string): Promise<void> {
    if (isMet()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const watch = (): void => {
        if (!isMet()) return;
        this.#watches.delete(watch);
        clearTimeout(timeout);
        resolve();
      };
      const timeout = setTimeout(() => {
        this.#watches.delete(watch);
        reject(new Error(`In ${WAIT_MS_MAX} ms ${complaint()}`));
      }, WAIT_MS_MAX);
      this.#watches.add(watch);
    });
  }

  #changed(): void {
    for (const watch of this.#watches) watch();
  }

  #admit(socket: Socket): void {
    this.connectionsSeen += 1;
    const { remotePort = 0 } = socket;
    this.#connections.set(remotePort, { socket, number: this.connectionsSeen });
    socket.on("error", ignoreResets);
    socket.once("close", () => {
      this.#connections.delete(remotePort);
      this.#changed();
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(Buffer.from(chunk));
    } catch {
      // An incomplete request is not received.
      return;
    }
    const received = toReceived(request, {
      rawBody: Buffer.concat(chunks),
      connection: this.#connections.get(request.socket.remotePort ?? 0)?.number ?? 0,
    });
    const script = this.#scriptsNext.shift() ?? this.#script;
    const index = this.requests.length;
    this.requests.push(received);
    this.#changed();
    const reply = typeof script === "function" ? script(received, index) : script;
    await this.#do(reply, { response, socket: request.socket });
  }

  async #do(
    reply: Reply,
    via: { readonly response: ServerResponse; readonly socket: Socket },
  ): Promise<void> {
    const { response, socket } = via;
    if (socket.destroyed) return;
    switch (reply.kind) {
      case "status":
        // After raw bytes node:http sends no further response.
        if (response.socket === null) socket.write(toBytes(reply));
        else response.writeHead(reply.status, reply.headers).end(reply.body);
        return;
      case "held":
        await reply.until;
        return this.#do(reply.reply, via);
      case "hang":
        return;
      case "raw":
        socket.write(reply.bytes);
        if (reply.end === true) socket.end();
        if (reply.end === "reset") this.#reset(socket);
        return;
      case "drip":
        socket.write(reply.head ?? "");
        return this.#drip(socket, reply);
      case "flood":
        socket.write(reply.head ?? "");
        return this.#flood(socket, reply.bytes);
      case "close":
        socket.end();
        return;
      case "reset":
        this.#reset(socket);
        return;
    }
  }

  #reset({ remotePort = 0 }: Socket): void {
    this.#connections.get(remotePort)?.socket.resetAndDestroy();
  }

  #drip(socket: Socket, { bytes, everyMs }: { bytes: string; everyMs: number }): void {
    let index = 0;
    const timer = setInterval(() => {
      socket.write(bytes.charAt(index % bytes.length));
      index += 1;
    }, everyMs);
    this.#stopWith(socket, () => clearInterval(timer));
  }

  #flood(socket: Socket, bytes: string): void {
    const chunk = bytes.repeat(Math.max(1, Math.floor(16_384 / bytes.length)));
    let stopped = false;
    const pour = (): void => {
      if (stopped || socket.destroyed) return;
      if (socket.write(chunk)) setImmediate(pour);
      else socket.once("drain", pour);
    };
    this.#stopWith(socket, () => {
      stopped = true;
    });
    pour();
  }

  #stopWith(socket: Socket, stop: () => void): void {
    this.#stops.add(stop);
    socket.once("close", () => {
      stop();
      this.#stops.delete(stop);
    });
  }
}

function toBytes(reply: Extract<Reply, { kind: "status" }>): Buffer {
  const body = Buffer.from(reply.body ?? "");
  const headers = { ...reply.headers, "Content-Length": String(body.length) };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${reply.status} \r\n${lines.join("")}\r\n`), body]);
}

function toReceived(
  request: IncomingMessage,
  { rawBody, connection }: { readonly rawBody: Buffer; readonly connection: number },
): ReceivedRequest {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headersDistinct)) {
    if (value !== undefined) headers[name] = value.join(", ");
  }
  return {
    method: request.method ?? "",
    url: request.url ?? "",
    headers,
    rawHeaders: request.rawHeaders,
    rawBody,
    receivedAt: Date.now(),
    connection,
  };
}

/** Listens on a loopback address. Returns the port. */
export async function listen(
  server: TcpServer,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<number> {
  server.listen({ host, port });
  await once(server, "listening");
  const address = server.address();
  assert(isInet(address));
  return address.port;
}

function isInet(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === "object" && address !== null;
}

/** Closes a server, open or not. */
export function closeServer(server: TcpServer): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** Asserts a loopback address: tests send packets to this machine alone. */
export function toLoopback(host = "127.0.0.1"): string {
  assert(host === "::1" || /^127(\.\d{1,3}){3}$/.test(host), `${host} is not a loopback address`);
  return host;
}

function ignoreResets(): void {
  // Senders reset connections in tests.
}

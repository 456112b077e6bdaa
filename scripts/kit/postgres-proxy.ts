import { once } from "node:events";
import { type Server, type Socket, connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { listen } from "./receiver.ts";

/** A message of PostgreSQL's protocol. */
export interface ProxyMessage {
  readonly from: "client" | "server";
  /** The type byte; empty for the first message of a connection. */
  readonly type: string;
  /** The rest as text. */
  readonly text: string;
}

/** `cut` closes the connection instead of the message, `pass and cut` after it. */
export type Verdict = "pass" | "cut" | "pass and cut";

/** A proxy before a PostgreSQL server, without TLS, that behaves as a bad network. */
export class PostgresProxy {
  readonly port: number;
  /** Milliseconds by which every piece of data is late, in each direction. */
  delayMs = 0;
  /** Connections that the proxy has cut. */
  cuts = 0;
  /** Pieces of data that were lost, by {@link lose}. */
  losses = 0;
  /** Called for each message. */
  judge: (message: ProxyMessage) => Verdict = () => "pass";
  readonly #server: Server;
  readonly #serverPort: number;
  readonly #links = new Set<Link>();
  #isHeld = false;
  #isShut = false;
  #loss: Loss = NO_LOSS;

  private constructor(server: Server, ports: { readonly own: number; readonly server: number }) {
    this.#server = server;
    this.port = ports.own;
    this.#serverPort = ports.server;
  }

  /** Before the server at that port of 127.0.0.1. */
  static async open(serverPort: number): Promise<PostgresProxy> {
    const server = createServer({ noDelay: true });
    const proxy = new PostgresProxy(server, { own: await listen(server), server: serverPort });
    server.on("connection", (socket) => proxy.#take(socket));
    return proxy;
  }

  /** The same URL, through the proxy. */
  through(url: string): string {
    const own = new URL(url);
    own.port = String(this.port);
    return own.href;
  }

  /** Cuts every connection, and refuses new ones until {@link reopen}. */
  shut(): void {
    this.#isShut = true;
    this.cutAll();
  }

  reopen(): void {
    this.#isShut = false;
  }

  /** From now on some of what passes is lost, as {@link Loss} says. */
  lose(loss: Loss | null): void {
    this.#loss = loss ?? NO_LOSS;
  }

  /** Nothing passes any more, and no connection ends: a half-open network. */
  hold(): void {
    this.#isHeld = true;
  }

  /** Held data passes, in order. */
  release(): void {
    this.#isHeld = false;
    for (const link of this.#links) link.flush();
  }

  /** Lets so many messages pass, of all connections and both ways, and cuts the connection of the last right after it. */
  cutAfter(messages: number): void {
    let left = messages;
    this.judge = () => {
      if (--left > 0) return "pass";
      this.judge = () => "pass";
      return "pass and cut";
    };
  }

  cutAll(): void {
    for (const link of this.#links) this.#cut(link);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const link of this.#links) link.end();
    await closed;
  }

  #take(client: Socket): void {
    if (this.#isShut) {
      client.destroy();
      return;
    }
    const server = connect({ host: "127.0.0.1", port: this.#serverPort, noDelay: true });
    const link: Link = new Link(client, server, {
      judge: (message) => this.judge(message),
      isHeld: () => this.#isHeld,
      arrives: () => this.#arrives(link),
      cut: () => this.#cut(link),
      ended: () => this.#links.delete(link),
    });
    this.#links.add(link);
  }

  /**
   * Settles when a piece of data arrives. TCP sends a lost piece again, each time after twice as long, and finally gives
   * the connection up.
   */
  async #arrives(link: Link): Promise<void> {
    if (this.delayMs > 0) await sleep(this.delayMs);
    const { rate, resendMs, triesMax } = this.#loss;
    for (let tries = 0; Math.random() < rate; tries++) {
      this.losses++;
      if (tries === triesMax) return this.#cut(link);
      await sleep(resendMs * 2 ** tries);
    }
  }

  #cut(link: Link): void {
    this.cuts++;
    link.end();
  }
}

/** The faults of a bad network for each piece of data, in each direction. */
export interface Loss {
  /** The chance that a piece is lost, each time that it is sent. */
  readonly rate: number;
  /** How long the sender waits before it sends it again; the next time twice as long. */
  readonly resendMs: number;
  /** A piece that was lost so often, and once more, costs its connection. */
  readonly triesMax: number;
}

const NO_LOSS: Loss = { rate: 0, resendMs: 0, triesMax: 0 };

interface LinkParts {
  readonly judge: (message: ProxyMessage) => Verdict;
  readonly isHeld: () => boolean;
  readonly arrives: () => Promise<void>;
  readonly cut: () => void;
  readonly ended: () => void;
}

/** A connection through the proxy. */
class Link {
  readonly #sockets: readonly Socket[];
  readonly #flows: readonly Flow[];

  constructor(client: Socket, server: Socket, parts: LinkParts) {
    this.#sockets = [client, server];
    this.#flows = [
      new Flow("client", { source: client, target: server, ...parts }),
      new Flow("server", { source: server, target: client, ...parts }),
    ];
    for (const socket of this.#sockets) {
      // Either side may break off whenever it likes.
      socket.on("error", () => {});
      socket.once("close", () => {
        this.end();
        parts.ended();
      });
    }
  }

  end(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  flush(): void {
    for (const flow of this.#flows) flow.flush();
  }
}

interface FlowParts extends LinkParts {
  readonly source: Socket;
  readonly target: Socket;
}

const LENGTH_BYTES = 4;

/** One direction of a connection. */
class Flow {
  readonly #from: ProxyMessage["from"];
  readonly #parts: FlowParts;
  #waiting: Buffer = Buffer.alloc(0);
  #hasEnded = false;
  /** The first message of a client has no type. */
  #typeBytes: 0 | 1;

  constructor(from: ProxyMessage["from"], parts: FlowParts) {
    this.#from = from;
    this.#parts = parts;
    this.#typeBytes = from === "client" ? 0 : 1;
    let last = Promise.resolve();
    parts.source.on("data", (chunk: Buffer) => {
      last = last.then(parts.arrives).then(() => {
        this.#waiting = Buffer.concat([this.#waiting, chunk]);
        this.flush();
      });
    });
    parts.source.once("end", () => {
      last = last.then(() => {
        this.#hasEnded = true;
        this.flush();
      });
    });
  }

  /** Passes the whole messages that wait, unless they are held. */
  flush(): void {
    const { judge, isHeld, target, cut } = this.#parts;
    while (!isHeld() && target.writable) {
      const bytes = this.#next();
      if (bytes === null) {
        if (this.#hasEnded) target.end();
        return;
      }
      const type = bytes.toString("latin1", 0, this.#typeBytes);
      const text = bytes.toString("latin1", this.#typeBytes + LENGTH_BYTES);
      this.#typeBytes = 1;
      const verdict = judge({ from: this.#from, type, text });
      if (verdict === "pass") {
        target.write(bytes);
        continue;
      }
      // Earlier messages still arrive, and the other side works on them.
      target.end(verdict === "cut" ? "" : bytes, cut);
      return;
    }
  }

  /** Takes the next whole message; null if it has not come yet. Its length counts itself. */
  #next(): Buffer | null {
    const waiting = this.#waiting;
    if (waiting.length < this.#typeBytes + LENGTH_BYTES) return null;
    const length = this.#typeBytes + waiting.readUInt32BE(this.#typeBytes);
    if (waiting.length < length) return null;
    this.#waiting = waiting.subarray(length);
    return waiting.subarray(0, length);
  }
}

import { once } from "node:events";
import { type Server, type Socket, connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { listen } from "./receiver.ts";

/** Between clients and a PostgreSQL server, without TLS: makes of the way to it what a bad network would. */
export class PostgresProxy {
  readonly port: number;
  /** Milliseconds that everything takes longer, each way. */
  delayMs = 0;
  /** Messages that have passed, both ways. */
  passed = 0;
  /** Connections that were cut, by {@link cutAt} or {@link cutAll}. */
  cuts = 0;
  /** Pieces of data that were lost, by {@link lose}. */
  losses = 0;
  readonly #server: Server;
  readonly #links = new Set<Link>();
  #serverPort: number;
  #held: PromiseWithResolvers<void> | null = null;
  #cutAt = Infinity;
  #wantsOpen: PromiseWithResolvers<void> | null = null;
  #isRefusing = false;
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

  /** New connections go to the server at that port, as after a failover behind one name. */
  moveTo(serverPort: number): void {
    this.#serverPort = serverPort;
  }

  /** Cuts every connection, and accepts none until `false`: this way is closed. */
  refuse(isRefusing: boolean): void {
    this.#isRefusing = isRefusing;
    if (isRefusing) this.cutAll();
  }

  /** From now on some of what passes is lost, as {@link Loss} says. */
  lose(loss: Loss | null): void {
    this.#loss = loss ?? NO_LOSS;
  }

  /**
   * Permanently stops one connection as soon as the server waits there for more of a transaction: between a statement
   * and the COMMIT. Settles at that moment.
   */
  holdOpenTransaction(): Promise<void> {
    this.#wantsOpen ??= Promise.withResolvers();
    return this.#wantsOpen.promise;
  }

  /** Nothing passes any more, and no connection ends: a half-open network. */
  hold(): void {
    this.#held ??= Promise.withResolvers();
  }

  /** Stopped data passes, in order. */
  release(): void {
    this.#held?.resolve();
    this.#held = null;
  }

  /** Lets so many messages pass, of all connections and both ways, and cuts the connection of the last right after it. */
  cutAfter(messages: number): void {
    this.#cutAt = this.passed + messages;
  }

  cutAll(): void {
    for (const link of this.#links) this.#cut(link);
  }

  get connections(): number {
    return this.#links.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.release();
    for (const link of this.#links) link.end();
    await closed;
  }

  #take(client: Socket): void {
    if (this.#isRefusing) {
      client.destroy();
      return;
    }
    const server = connect({ host: "127.0.0.1", port: this.#serverPort, noDelay: true });
    const link = new Link({ client, server });
    this.#links.add(link);
    void link.ended.then(() => this.#links.delete(link));
    this.#pass(link, { from: client, to: server, messages: new PostgresMessages("to server") });
    this.#pass(link, { from: server, to: client, messages: new PostgresMessages("to client") });
  }

  #pass(link: Link, { from, to, messages }: Way): void {
    let last: Promise<void> = Promise.resolve();
    const after = (step: () => void): void => {
      last = last.then(() => this.#wait(link)).then(step);
    };
    from.on("data", (chunk: Buffer) => after(() => this.#write(link, { chunk, to, messages })));
    from.once("end", () => after(() => to.end()));
  }

  async #wait(link: Link): Promise<void> {
    if (this.delayMs > 0) await sleep(this.delayMs);
    await this.#resend(link);
    while (this.#held !== null) await this.#held.promise;
  }

  /** TCP's reaction to a loss: it sends again, each time after twice as long, and finally gives the connection up. */
  async #resend(link: Link): Promise<void> {
    const { rate, resendMs, triesMax } = this.#loss;
    for (let tries = 0; Math.random() < rate; tries++) {
      this.losses++;
      if (tries === triesMax) {
        this.#cut(link);
        return;
      }
      await sleep(resendMs * 2 ** tries);
    }
  }

  #write(
    link: Link,
    { chunk, to, messages }: Pick<Way, "to" | "messages"> & { readonly chunk: Buffer },
  ): void {
    if (link.isOver || link.isHeld) return;
    for (const end of messages.ends(chunk)) {
      if (this.#wantsOpen !== null && isOpenTransaction(chunk.subarray(0, end))) {
        link.isHeld = true;
        this.#wantsOpen.resolve();
        this.#wantsOpen = null;
        return;
      }
      if (++this.passed < this.#cutAt) continue;
      this.#cutAt = Infinity;
      // The other side gets what has passed, and works on it.
      to.write(chunk.subarray(0, end), () => this.#cut(link));
      link.isOver = true;
      return;
    }
    to.write(chunk);
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

// ReadyForQuery, inside a transaction. One that came in two pieces is missed, and the next is found.
const OPEN_TRANSACTION = Buffer.from("Z\0\0\0\u0005T", "latin1");
// The answer to BEGIN alone: such a transaction holds nothing yet.
const ONLY_BEGUN = Buffer.concat([Buffer.from("C\0\0\0\nBEGIN\0", "latin1"), OPEN_TRANSACTION]);

function isOpenTransaction(passed: Buffer): boolean {
  const endsWith = (end: Buffer): boolean => passed.subarray(-end.length).equals(end);
  return endsWith(OPEN_TRANSACTION) && !endsWith(ONLY_BEGUN);
}

interface Way {
  readonly from: Socket;
  readonly to: Socket;
  readonly messages: PostgresMessages;
}

class Link {
  readonly ended: Promise<unknown>;
  /** Nothing passes any more. */
  isOver = false;
  /** The same, and both sides stay connected. */
  isHeld = false;
  readonly #sockets: readonly Socket[];

  constructor({ client, server }: { readonly client: Socket; readonly server: Socket }) {
    this.#sockets = [client, server];
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    for (const socket of this.#sockets) {
      // Either side may break off whenever it likes.
      socket.on("error", () => {});
      socket.once("close", () => {
        this.end();
        resolve();
      });
    }
  }

  end(): void {
    this.isOver = true;
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** A kind that stands before the length, and the length, which counts itself. */
const KIND_BYTES = 1;
const LENGTH_BYTES = 4;

/** Finds where messages of PostgreSQL's protocol end in the bytes of one way of a connection. */
export class PostgresMessages {
  /** Bytes of the message under way that are still to come; its head where that is not whole yet. */
  #missing = 0;
  #head = Buffer.alloc(0);
  #kindBytes: number;

  /** The first message of a client, which names its user, has no kind. */
  constructor(way: "to server" | "to client") {
    this.#kindBytes = way === "to server" ? 0 : KIND_BYTES;
  }

  /** The ends of messages in the next bytes, as numbers of bytes. */
  ends(chunk: Buffer): readonly number[] {
    const ends: number[] = [];
    let at = 0;
    while (at < chunk.length) {
      if (this.#missing === 0) {
        const read = this.#readHead(chunk.subarray(at));
        at += read;
        // A message may be its head alone.
        if (this.#missing === 0 && this.#head.length === 0) ends.push(at);
        continue;
      }
      const taken = Math.min(this.#missing, chunk.length - at);
      at += taken;
      this.#missing -= taken;
      if (this.#missing === 0) ends.push(at);
    }
    return ends;
  }

  /** Reads the available part of a head, and returns its length. */
  #readHead(bytes: Buffer): number {
    const whole = this.#kindBytes + LENGTH_BYTES;
    const read = Math.min(whole - this.#head.length, bytes.length);
    this.#head = Buffer.concat([this.#head, bytes.subarray(0, read)]);
    if (this.#head.length < whole) return read;
    this.#missing = this.#head.readInt32BE(this.#kindBytes) - LENGTH_BYTES;
    this.#head = Buffer.alloc(0);
    this.#kindBytes = KIND_BYTES;
    return read;
  }
}

import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import type { TestContext } from "node:test";

import { afterwards } from "./afterwards.ts";

/** A message of PostgreSQL's protocol. */
export interface ProxyMessage {
  readonly from: "client" | "server";
  /** The type byte; empty for the first message of a connection. */
  readonly type: string;
  /** The rest as text. */
  readonly text: string;
  /** The number of the connection, from 0. */
  readonly connection: number;
}

/** `cut` closes the connection instead of the message, `pass and cut` after it. */
export type Verdict = "pass" | "cut" | "pass and cut";

/** A proxy that can close a connection between two messages, hold all messages, or refuse connections. */
export class PostgresProxy {
  /** The URL of the server through the proxy. */
  readonly url: string;
  /** Called for each message. */
  judge: (message: ProxyMessage) => Verdict = () => "pass";
  readonly #port: number;
  readonly #links = new Set<Link>();
  #isHeld = false;
  #isShut = false;
  #connections = 0;

  private constructor(server: Server, serverUrl: string) {
    const url = new URL(serverUrl);
    this.#port = Number(url.port);
    url.port = String((server.address() as AddressInfo).port);
    this.url = url.href;
    server.on("connection", (client) => this.#join(client));
  }

  static async start(t: TestContext, serverUrl: string): Promise<PostgresProxy> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const proxy = new PostgresProxy(server, serverUrl);
    afterwards(t, () => {
      proxy.shut();
      server.close();
    });
    return proxy;
  }

  /** Closes every connection. */
  cutAll(): void {
    for (const link of this.#links) link.cut();
  }

  /** Closes every connection, and refuses new ones until {@link reopen}. */
  shut(): void {
    this.#isShut = true;
    this.cutAll();
  }

  reopen(): void {
    this.#isShut = false;
  }

  /** Holds all messages until {@link release}. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    for (const link of this.#links) link.flush();
  }

  #join(client: Socket): void {
    if (this.#isShut) {
      client.destroy();
      return;
    }
    const connection = this.#connections++;
    const server = connect(this.#port, "127.0.0.1");
    const link = new Link(client, server, {
      judge: (message) => this.judge({ ...message, connection }),
      isHeld: () => this.#isHeld,
      ended: () => this.#links.delete(link),
    });
    this.#links.add(link);
  }
}

interface LinkParts {
  readonly judge: (message: Omit<ProxyMessage, "connection">) => Verdict;
  readonly isHeld: () => boolean;
  readonly ended: () => void;
}

class Link {
  readonly #sockets: readonly Socket[];
  readonly #flows: readonly Flow[];
  readonly #parts: LinkParts;

  constructor(client: Socket, server: Socket, parts: LinkParts) {
    this.#sockets = [client, server];
    this.#parts = parts;
    const { judge, isHeld } = parts;
    const cut = (): void => this.cut();
    this.#flows = [
      new Flow({ from: "client", source: client, target: server, judge, isHeld, cut }),
      new Flow({ from: "server", source: server, target: client, judge, isHeld, cut }),
    ];
    for (const socket of this.#sockets) {
      socket.setNoDelay(true);
      socket.on("error", cut);
      socket.on("close", cut);
    }
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#parts.ended();
  }

  flush(): void {
    for (const flow of this.#flows) flow.flush();
  }
}

interface FlowParts extends Pick<LinkParts, "judge" | "isHeld"> {
  readonly from: ProxyMessage["from"];
  readonly source: Socket;
  readonly target: Socket;
  readonly cut: () => void;
}

/** One direction of a connection. */
class Flow {
  readonly #parts: FlowParts;
  #waiting: Buffer = Buffer.alloc(0);
  /** The first message of a client has no letter. */
  #isFirst: boolean;

  constructor(parts: FlowParts) {
    this.#parts = parts;
    this.#isFirst = parts.from === "client";
    parts.source.on("data", (chunk: Buffer) => {
      this.#waiting = Buffer.concat([this.#waiting, chunk]);
      this.flush();
    });
  }

  flush(): void {
    const { judge, isHeld, from, target, cut } = this.#parts;
    while (!isHeld()) {
      const letters = this.#isFirst ? 0 : 1;
      if (this.#waiting.length < letters + 4) return;
      const length = letters + this.#waiting.readUInt32BE(letters);
      if (this.#waiting.length < length) return;
      const bytes = this.#waiting.subarray(0, length);
      this.#waiting = this.#waiting.subarray(length);
      this.#isFirst = false;
      const type = bytes.toString("latin1", 0, letters);
      const verdict = judge({ from, type, text: bytes.toString("latin1", letters + 4) });
      if (verdict !== "cut") target.write(bytes);
      if (verdict === "pass") continue;
      // Earlier messages still arrive.
      if (verdict === "pass and cut") target.end(cut);
      else cut();
      return;
    }
  }
}

import { once } from "node:events";
import { createServer, type ListenOptions, type Server, type Socket } from "node:net";

import { HttpMessages, type HttpMessage } from "./http-messages.ts";

/** An answer without a body. */
export const EMPTY_ANSWERS = {
  200: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  500: "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
} as const;

/** The origin of a message. */
export interface MessageSource {
  /** The answer is written to it. */
  readonly socket: Socket;
  /** When the first byte of the message came, before anything was made of it; epoch milliseconds. */
  readonly firstByteAt: number;
}

/** Takes the HTTP messages of all its connections. What `take` does not answer is not answered. */
export class MessageServer {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: ReadonlySet<Socket>;

  private constructor(
    server: Server,
    { port, sockets }: { readonly port: number; readonly sockets: ReadonlySet<Socket> },
  ) {
    this.#server = server;
    this.port = port;
    this.#sockets = sockets;
  }

  /** Listens on a free port of 127.0.0.1 unless given another place. Rejects when the port is taken. */
  static async open(
    take: (message: HttpMessage, source: MessageSource) => void,
    where: ListenOptions = {},
  ): Promise<MessageServer> {
    const sockets = new Set<Socket>();
    const server = createServer({ noDelay: true }, (socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      serve(socket, take);
    });
    const port = await listen(server, where);
    return new MessageServer(server, { port, sockets });
  }

  /** Its base URL, without a path. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

function serve(socket: Socket, take: (message: HttpMessage, source: MessageSource) => void): void {
  const messages = new HttpMessages();
  let begunAt: number | null = null;
  socket.on("data", (chunk: Buffer) => {
    // Of several chunks the first one counts.
    begunAt ??= Date.now();
    const firstByteAt = begunAt;
    messages.read(chunk, (message) => {
      begunAt = null;
      take(message, { socket, firstByteAt });
    });
  });
  // A sender that dies or gives an attempt up sends again; there is nothing to do here.
  socket.on("error", () => socket.destroy());
}

/** Makes a server listen, on a free port of 127.0.0.1 unless given another place, and resolves to the port. */
export async function listen(server: Server, where: ListenOptions = {}): Promise<number> {
  server.listen({ host: "127.0.0.1", port: 0, ...where });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return address.port;
}

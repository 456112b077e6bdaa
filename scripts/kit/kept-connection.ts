import { once } from "node:events";
import { connect, type Socket } from "node:net";

import { HttpMessages, type HttpMessage } from "./http-messages.ts";

/** One kept connection to a server on 127.0.0.1, with one request under way at a time. */
export class KeptConnection {
  readonly #socket: Socket;
  readonly #messages = new HttpMessages();
  #waiting: PromiseWithResolvers<HttpMessage> | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#messages.read(chunk, (message) => this.#settle((waiting) => waiting.resolve(message)));
    });
    const refuse = (): void => {
      this.#settle((waiting) => waiting.reject(new Error("the server closed the connection")));
    };
    // "close" follows every error and says all that matters here.
    socket.on("error", () => {});
    socket.on("close", refuse);
  }

  /** `from` is the loopback address that it comes from, where it matters. Rejects when nobody listens there. */
  static async open(port: number, from?: string): Promise<KeptConnection> {
    const socket = connect({ host: "127.0.0.1", port, localAddress: from, noDelay: true });
    await once(socket, "connect");
    return new KeptConnection(socket);
  }

  /** Sends a whole request and waits for its answer. Rejects when the connection ends instead. */
  ask(request: string | Uint8Array): Promise<HttpMessage> {
    this.#waiting = Promise.withResolvers<HttpMessage>();
    const { promise } = this.#waiting;
    this.#socket.write(request);
    if (this.#socket.destroyed) this.#socket.emit("close");
    return promise;
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  #settle(how: (waiting: PromiseWithResolvers<HttpMessage>) => void): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting !== null) how(waiting);
  }
}

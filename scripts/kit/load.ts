import { once } from "node:events";
import { connect, type Socket } from "node:net";

import { asError } from "./as-error.ts";
import { HttpMessages, type HttpMessage } from "./http-messages.ts";
import { requireTaken } from "./request.ts";

/** Requests to send, all alike. */
export interface Load {
  /** On 127.0.0.1. */
  readonly port: number;
  /** Each has one request under way at a time. */
  readonly connections: number;
  /** A whole request, as it goes over the wire. */
  readonly request: Uint8Array;
  /** Whether another request may be sent; asked before each. */
  readonly goesOn: () => boolean;
  /** Called at every answer, in the order they come. */
  readonly onAnswer: (answer: HttpMessage, latencyMs: number) => void;
}

/** How a load ended. */
export interface LoadEnd {
  /** Connections that the server closed or that broke before they were done. */
  readonly broken: number;
}

/**
 * Sends requests over kept connections until `goesOn` says no, then waits for the last answers. A
 * connection that breaks is not opened again. Rejects when it cannot connect, or when `onAnswer` throws.
 */
export async function runLoad(load: Load): Promise<LoadEnd> {
  const sockets = await connectAll(load);
  try {
    const ends = await Promise.all(sockets.map((socket) => new LoadConnection(socket, load).run()));
    return { broken: ends.filter((end) => end === "broken").length };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

/** Sends a request so often over some connections. Rejects when one is cut off, or at an answer that `require` throws at. */
export async function sendTimes(
  times: number,
  { port, request }: { readonly port: number; readonly request: string },
  require: (answer: HttpMessage) => unknown = requireTaken,
): Promise<void> {
  let left = times;
  const { broken } = await runLoad({
    port,
    connections: 8,
    request: Buffer.from(request),
    goesOn: () => left-- > 0,
    onAnswer: (answer) => void require(answer),
  });
  if (broken > 0) throw new Error(`the server closed ${broken} connections`);
}

async function connectAll({ port, connections }: Load): Promise<Socket[]> {
  const sockets = Array.from({ length: connections }, () => {
    return connect({ host: "127.0.0.1", port, noDelay: true });
  });
  try {
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    return sockets;
  } catch (error) {
    for (const socket of sockets) socket.on("error", ignoreError).destroy();
    throw error;
  }
}

/** request → answer → request …, on one connection. */
class LoadConnection {
  readonly #socket: Socket;
  readonly #load: Load;
  readonly #messages = new HttpMessages();
  #sentAt = 0;

  constructor(socket: Socket, load: Load) {
    this.#socket = socket;
    this.#load = load;
  }

  run(): Promise<"done" | "broken"> {
    return new Promise((resolve, reject) => {
      const onAnswer = (answer: HttpMessage): void => {
        this.#load.onAnswer(answer, performance.now() - this.#sentAt);
        if (!this.#send()) resolve("done");
      };
      this.#socket.on("data", (chunk: Buffer) => {
        try {
          this.#messages.read(chunk, onAnswer);
        } catch (error) {
          reject(asError(error));
        }
      });
      // "close" follows every error and says all that matters here.
      this.#socket.on("error", ignoreError);
      this.#socket.on("close", () => resolve("broken"));
      if (!this.#send()) resolve("done");
    });
  }

  #send(): boolean {
    if (!this.#load.goesOn()) return false;
    this.#sentAt = performance.now();
    this.#socket.write(this.#load.request);
    return true;
  }
}

function ignoreError(): void {
  // Said where it is attached.
}

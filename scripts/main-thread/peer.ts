import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";

const SERVICE_ANSWER = Buffer.from(`"${"x".repeat(4_000_000)}"`);
// The kept part of an answer ends far before its end.
const LONG_REFUSAL = Buffer.from("ä".repeat(32 * 1024));

/** The other side of the daemon's requests: a receiver of webhooks, one that refuses them all, and a service. */
export class Peer {
  readonly #server: Server;
  #waiting: (() => void)[] = [];

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => {
      request.resume();
      request.on("end", () => this.#answer(request.url ?? "", response));
    });
  }

  static async start(): Promise<Peer> {
    const server = createServer();
    const peer = new Peer(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return peer;
  }

  url(path: "/service" | "/hook" | "/refusing"): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("it does not listen");
    return `http://127.0.0.1:${address.port}${path}`;
  }

  /** Settles when a whole webhook has come to `/hook`. */
  nextWebhook(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #answer(path: string, response: ServerResponse): void {
    if (path === "/service") {
      response.setHeader("content-type", "application/json");
      response.end(SERVICE_ANSWER);
    } else if (path === "/refusing") {
      response.statusCode = 500;
      response.end(LONG_REFUSAL);
    } else {
      response.end();
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const resolve of waiting) resolve();
    }
  }

  [Symbol.dispose](): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

// Below the ports that Linux assigns by itself, 32768 to 60999, also to outgoing connections.
const FIRST = 10_240;
const BEYOND = 32_768;

/** A port to listen on later, or again after a stop, or never. Another process could use an assigned port by then. */
export async function findFreePort(host = "127.0.0.1"): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, BEYOND);
    const server = createServer().listen({ host, port });
    try {
      await once(server, "listening");
    } catch {
      continue;
    }
    server.close();
    await once(server, "close");
    return port;
  }
}

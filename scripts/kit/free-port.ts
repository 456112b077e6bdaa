import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

// Below the ports that Linux gives to whoever asks for any, 32768 to 60999, be it for a connection of its own.
const FIRST = 10_240;
const BEYOND = 32_768;

/**
 * A port to listen on later, or again after a stop, or never. One that the system had given could be somebody else's by
 * then: other processes run meanwhile.
 */
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

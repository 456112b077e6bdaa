import { randomInt } from "node:crypto";
import { createServer } from "node:net";

import { closeServer, listen } from "./receiver.ts";

// Below the ports that Linux gives to whoever asks for any, 32768 to 60999, be it for a connection of its own.
const FIRST = 10_240;
const BEYOND = 32_768;

/**
 * A port to listen on later, or again after a stop, or never. One that the system had given could be somebody else's by
 * then: other tests run meanwhile.
 */
export async function findFreePort(host = "127.0.0.1"): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, BEYOND);
    const server = createServer();
    try {
      await listen(server, { host, port });
    } catch {
      continue;
    }
    await closeServer(server);
    return port;
  }
}

import type { IncomingMessage } from "node:http";

import { FINE_CHUNKS_MAX } from "../domain/growing-bytes.ts";

/**
 * Cuts off a client whose body comes in many small chunks while nobody reads it: Node keeps 64 KiB of a body, which are
 * 65,536 buffers where each chunk is one byte, and 32 such bodies held up everything for 8 s (measured). Of a body that is
 * read its reader counts the chunks.
 */
export function cutOffFineChunks(request: IncomingMessage): void {
  if (request.headers["transfer-encoding"] === undefined) return;
  const push = request.push.bind(request);
  let unread = 0;
  request.push = (chunk: Buffer | null) => {
    unread = request.readableLength === 0 ? 0 : unread + 1;
    if (unread <= FINE_CHUNKS_MAX) return push(chunk);
    request.socket.destroy();
    return false;
  };
}

import type { Server, ServerResponse } from "node:http";

import { systemClock } from "../../domain/clock/clock.ts";
import { IdGenerator } from "../../domain/id.ts";
import { StatusError, type ResponseHeaders } from "../../domain/status.ts";
import { toRawResponse } from "../respond.ts";
import type { Socket } from "./client-connection.ts";
import { closeLingering } from "./lingering-close.ts";

/**
 * Answers bytes that never became a request in the contract's shape too, and closes their connection. Answers to
 * earlier requests go first: a client would take this one for theirs.
 */
export function refuseGarbage(server: Server, headers: ResponseHeaders): void {
  const answerGarbage = answererWith(headers);
  const lastAnswers = new WeakMap<Socket, ServerResponse>();
  server.prependListener("request", ({ socket }, response) => lastAnswers.set(socket, response));
  server.on("clientError", (error, socket: Socket) => {
    const last = lastAnswers.get(socket);
    if (last?.req.complete && !last.writableFinished) {
      last.once("close", () => answerGarbage(error, socket));
    } else if (last?.req.complete === false && last.socket === null) {
      // The last request itself is broken, and is answered already or waits behind one that is not.
      socket.destroy();
    } else answerGarbage(error, socket);
  });
}

const ids = new IdGenerator();

function answererWith(headers: ResponseHeaders) {
  return (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const detail = GARBAGE[error.code ?? ""] ?? NO_REQUEST;
    const reply = { requestId: ids.next(systemClock.now()), headers };
    const text = toRawResponse(new StatusError(40000, { detail }), reply);
    socket.write(text);
    closeLingering(socket);
  };
}

const NO_REQUEST = "This is not an HTTP/1.1 request that can be read.";
const GARBAGE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "The request's headers are too large.",
  ERR_HTTP_REQUEST_TIMEOUT: "The request took too long to arrive.",
};

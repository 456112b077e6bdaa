import type { HttpMessage } from "./http-messages.ts";
import { KeptConnection } from "./kept-connection.ts";
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
  using stack = new DisposableStack();
  const opening = Array.from({ length: load.connections }, async () =>
    stack.use(await KeptConnection.open(load.port)),
  );
  const lanes = (await Promise.all(opening)).map((connection) => isDone(connection, load));
  const ends = await Promise.all(lanes);
  return { broken: ends.filter((done) => !done).length };
}

/** request → answer → request …, on one connection. False when it breaks. */
async function isDone(
  connection: KeptConnection,
  { request, goesOn, onAnswer }: Load,
): Promise<boolean> {
  while (goesOn()) {
    const sentAt = performance.now();
    const answer = await connection.ask(request).catch(() => null);
    if (answer === null) return false;
    onAnswer(answer, performance.now() - sentAt);
  }
  return true;
}

/**
 * Sends a request so often over some connections. Rejects when one is cut off, or at an answer that `require` throws
 * at.
 */
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

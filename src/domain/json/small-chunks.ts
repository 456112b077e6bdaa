/** What a message costs that comes in many small chunks: each takes as long as some hundred bytes, and nothing can put it off. */

// A larger one is paid for by its bytes.
const SMALL_BYTES = 512;
/** So many of one message are always taken: others may have used up what its sender has. */
export const UNCOUNTED_CHUNKS = 16;
/** So many more are taken in one turn of the event loop, which take some milliseconds. */
export const TURN_CHUNKS_MAX = 4096;

/**
 * How many small chunks are taken in one turn of the event loop, shared evenly by whom they come from in it. Node parses 64
 * KiB of a connection at once, which are 10,900 chunks of one byte, and the same of every other connection before anything
 * else has its turn.
 */
export class ChunkShares {
  readonly #counts = new Map<string, number>();
  readonly #goRound: (callback: () => void) => void;

  /** `goRound` calls back when the event loop goes round. */
  constructor(goRound: (callback: () => void) => void = setImmediate) {
    this.#goRound = goRound;
  }

  /** Judges the chunks of one message from this sender as they come: false for one that is too many. */
  open(sender: string): (chunk: Uint8Array) => boolean {
    let small = 0;
    return (chunk) =>
      chunk.length >= SMALL_BYTES || ++small <= UNCOUNTED_CHUNKS || this.#take(sender);
  }

  #take(sender: string): boolean {
    if (this.#counts.size === 0) this.#goRound(() => this.#counts.clear());
    const count = (this.#counts.get(sender) ?? 0) + 1;
    this.#counts.set(sender, count);
    return count <= TURN_CHUNKS_MAX / this.#counts.size;
  }
}

const shares = new ChunkShares();

/** A message that Node reads. */
export interface ReadMessage {
  readonly socket: ParsedSocket;
  push(chunk: Buffer | null): boolean;
}

/**
 * Calls back at the first chunk of a message that is one too many, see {@link ChunkShares}: nothing behind it will come. That
 * may be before anybody has been handed anything of it.
 */
export function boundChunks(
  message: ReadMessage,
  { sender, onTooMany }: { readonly sender: string; readonly onTooMany: () => void },
): void {
  const isTaken = shares.open(sender);
  const push = message.push.bind(message);
  message.push = (chunk) => {
    const isTooMany = chunk !== null && !isTaken(chunk);
    if (isTooMany) dropRest(message.socket);
    const goesOn = push(chunk);
    if (isTooMany) onTooMany();
    return goesOn;
  };
}

/** The socket of a message, with what Node does not document. */
export interface ParsedSocket {
  readonly parser?: Record<number, unknown> | null;
  once(event: "close", listener: () => void): unknown;
}

// Where Node's HTTP parser has what it calls with each chunk (HTTPParser.kOnBody).
const ON_BODY = 3;

/**
 * Has Node read on without handing anything of a body on, until the connection is closed: what of a read follows the chunk
 * that was one too many would cost a call each, and takes a fiftieth of it so. It is nothing that Node documents: where it
 * is not found, each costs what it costs.
 */
export function dropRest(socket: ParsedSocket): void {
  const { parser } = socket;
  const onBody = parser?.[ON_BODY];
  if (!parser || typeof onBody !== "function" || onBody.name !== "parserOnBody") return;
  parser[ON_BODY] = null;
  // Node uses it again for another connection.
  socket.once("close", () => (parser[ON_BODY] = onBody));
}

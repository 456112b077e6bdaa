/** An HTTP/1.1 message as it came over a connection. */
export interface HttpMessage {
  /** Start line and header lines, without the empty line that ends them. */
  readonly head: string;
  readonly body: Buffer;
}

const HEAD_END = "\r\n\r\n";
const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;
const TRANSFER_ENCODING = /\r\ntransfer-encoding:/i;

/**
 * Cuts one connection's bytes into messages. It reads what postbackd and the load generator write, and
 * nothing more: a body is as long as Content-Length says, none is none, and chunks are refused. That
 * makes it several times cheaper than node:http, which would take its share of the measured machine.
 */
export class HttpMessages {
  #rest: Buffer | null = null;

  /** Hands every message that `chunk` completes to `take`. Throws at a chunked body. */
  read(chunk: Buffer, take: (message: HttpMessage) => void): void {
    let bytes = this.#rest === null ? chunk : Buffer.concat([this.#rest, chunk]);
    while (bytes.length > 0) {
      const headEnd = bytes.indexOf(HEAD_END);
      if (headEnd === -1) break;
      const head = bytes.toString("latin1", 0, headEnd);
      const bodyStart = headEnd + HEAD_END.length;
      const bodyEnd = bodyStart + contentLength(head);
      if (bytes.length < bodyEnd) break;
      take({ head, body: bytes.subarray(bodyStart, bodyEnd) });
      bytes = bytes.subarray(bodyEnd);
    }
    this.#rest = bytes.length > 0 ? bytes : null;
  }
}

function contentLength(head: string): number {
  const length = CONTENT_LENGTH.exec(head)?.[1];
  if (length !== undefined) return Number(length);
  if (TRANSFER_ENCODING.test(head)) throw new Error("a chunked body is not read here");
  return 0;
}

/** The value of a header, null where there is none. `name` in lower case. */
export function headerOf(head: string, name: string): string | null {
  for (const line of head.split("\r\n")) {
    if (line.length > name.length && line.slice(0, name.length).toLowerCase() === name) {
      if (line[name.length] === ":") return line.slice(name.length + 1).trim();
    }
  }
  return null;
}

import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { TestContext } from "node:test";

/** A response as received. */
export interface RawResponse {
  readonly status: number;
  /** Names in lower case, one entry for each line. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
}

/** A TCP connection that sends exact bytes, also those that fetch would change or refuse. */
export interface RawConnection {
  /** Text is sent as Latin-1, so that `\xff` is one byte. */
  send(bytes: string | Uint8Array): void;
  /** The next response. A response to HEAD has no body. */
  next(options?: { readonly to?: "HEAD" }): Promise<RawResponse>;
  /** Sends FIN and reads on. */
  end(): void;
  /** Sends RST. */
  reset(): void;
  /** Resolves when the server has closed, with the bytes after the last response. */
  closed(): Promise<Buffer>;
}

/** The parts of a request. Absent parts have valid defaults. */
export interface RawRequest {
  readonly method?: string;
  readonly target?: string;
  /** Lines without line breaks. A Host line comes first unless `host` is false. */
  readonly headers?: readonly string[];
  readonly host?: false;
  /** Sent with a Content-Length unless a header has the length. */
  readonly body?: string | Uint8Array;
}

// A wait fails with a message instead of the test runner's time-out.
const WAIT_MS_MAX = 30_000;

/** Connects to a server on this machine. The connection is closed after the test. */
export async function openRaw(t: TestContext, url: string): Promise<RawConnection> {
  const connection = await connectRaw(url);
  t.after(() => connection.reset());
  return connection;
}

/** Sends one request on a new connection, which is closed after the response. */
export async function exchange(url: string, request: RawRequest): Promise<RawResponse> {
  const connection = await connectRaw(url);
  try {
    connection.send(toBytes(request));
    return await connection.next(request.method === "HEAD" ? { to: "HEAD" } : {});
  } finally {
    connection.reset();
  }
}

/** The bytes of a request. */
export function toBytes(request: RawRequest): Buffer {
  const { method = "GET", target = "/livez", headers = [], body } = request;
  const lines = [
    `${method} ${target} HTTP/1.1`,
    ...(request.host === false ? [] : ["Host: 127.0.0.1"]),
    ...headers,
  ];
  const bytes = Buffer.from(body ?? "");
  const hasLength = headers.some((line) => /^(content-length|transfer-encoding)\b/i.test(line));
  if (body !== undefined && !hasLength) lines.push(`Content-Length: ${bytes.length}`);
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), bytes]);
}

/** A body in chunked coding, cut into pieces of `size` bytes. */
export function toChunks(body: string | Uint8Array, size = 1000): Buffer {
  const bytes = Buffer.from(body);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    const piece = bytes.subarray(at, at + size);
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n"));
  }
  return Buffer.concat([...pieces, Buffer.from("0\r\n\r\n")]);
}

/** All values of a response's header, one for each line. */
export function headerLines(response: RawResponse, name: string): readonly string[] {
  return response.headers.flatMap(([each, value]) => (each === name ? [value] : []));
}

/** The value of a single header, or null. */
export function headerOf(response: RawResponse, name: string): string | null {
  const [value, ...others] = headerLines(response, name);
  assert.deepEqual(others, [], `${name} stands more than once`);
  return value ?? null;
}

async function connectRaw(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  assert.match(hostname, /^127\./, "tests send packets to this machine alone");
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  await once(socket, "connect");
  return new SocketConnection(socket);
}

class SocketConnection implements RawConnection {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #hasEnded = false;
  readonly #watches = new Set<() => void>();

  constructor(socket: Socket) {
    this.#socket = socket;
    // The server resets a connection with unread bytes.
    socket.on("error", () => this.#ended());
    socket.on("end", () => this.#ended());
    socket.on("close", () => this.#ended());
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#changed();
    });
  }

  send(bytes: string | Uint8Array): void {
    if (!this.#socket.writable) return;
    this.#socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  async next({ to }: { readonly to?: "HEAD" } = {}): Promise<RawResponse> {
    for (;;) {
      const parsed = parseResponse(this.#received, {
        isHead: to === "HEAD",
        isEnd: this.#hasEnded,
      });
      if (parsed === null) {
        if (this.#hasEnded) throw new Error(`closed without a response: ${this.#shown()}`);
        await this.#change();
        continue;
      }
      this.#received = this.#received.subarray(parsed.bytes);
      if (parsed.response.status !== 100) return parsed.response;
    }
  }

  end(): void {
    this.#socket.end();
  }

  reset(): void {
    this.#socket.resetAndDestroy();
  }

  async closed(): Promise<Buffer> {
    while (!this.#hasEnded) await this.#change();
    return this.#received;
  }

  #ended(): void {
    this.#hasEnded = true;
    this.#changed();
  }

  #changed(): void {
    for (const watch of this.#watches) watch();
    this.#watches.clear();
  }

  #change(): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (): void =>
        reject(new Error(`no response in ${WAIT_MS_MAX} ms: ${this.#shown()}`));
      const timer = setTimeout(fail, WAIT_MS_MAX);
      this.#watches.add(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #shown(): string {
    return JSON.stringify(this.#received.toString("latin1").slice(0, 500));
  }
}

interface Parsed {
  readonly response: RawResponse;
  /** Its length in bytes. */
  readonly bytes: number;
}

function parseResponse(
  bytes: Buffer,
  { isHead, isEnd }: { readonly isHead: boolean; readonly isEnd: boolean },
): Parsed | null {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd === -1) return null;
  const [statusLine = "", ...lines] = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3}) [\t\x20-\x7e]*$/.exec(statusLine)?.[1]);
  assert(status >= 100 && status <= 599, `not a status line: ${statusLine}`);
  const headers = lines.map(parseLine);
  const from = headEnd + 4;
  if (isHead || status < 200 || status === 204 || status === 304) {
    return { response: { status, headers, body: Buffer.alloc(0) }, bytes: from };
  }
  const declared = headers.find(([name]) => name === "content-length")?.[1];
  const to = declared === undefined ? bytes.length : from + Number(declared);
  if (declared === undefined ? !isEnd : bytes.length < to) return null;
  return { response: { status, headers, body: bytes.subarray(from, to) }, bytes: to };
}

function parseLine(line: string): readonly [string, string] {
  const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\t\x20-\x7e]*)$/.exec(line);
  assert(match !== null, `not a header line: ${line}`);
  return [(match[1] ?? "").toLowerCase(), match[2] ?? ""];
}

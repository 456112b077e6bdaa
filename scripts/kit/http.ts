import { once } from "node:events";
import { connect, type Socket } from "node:net";

import { z } from "zod";

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
 * Cuts one connection's bytes into messages. It reads what postbackd and the load generator write, and nothing more: a
 * body without Content-Length is empty, and chunks are refused. So it costs a fraction of node:http and undici, which
 * would take their share of the measured machine.
 */
export class HttpMessages {
  #rest: Buffer | null = null;

  /** Passes every message that `chunk` completes to `take`. Throws at a chunked body. */
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

/** The value of a header, or null. `name` in lower case. */
export function headerOf(head: string, name: string): string | null {
  for (const line of head.split("\r\n")) {
    if (line.length > name.length && line.slice(0, name.length).toLowerCase() === name) {
      if (line[name.length] === ":") return line.slice(name.length + 1).trim();
    }
  }
  return null;
}

/** A kept connection to a server on 127.0.0.1, with one request under way at a time. */
export class KeptConnection {
  readonly #socket: Socket;
  readonly #messages = new HttpMessages();
  #waiting: PromiseWithResolvers<HttpMessage> | null = null;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      try {
        this.#messages.read(chunk, (message) => this.#settle((each) => each.resolve(message)));
      } catch (error) {
        socket.destroy();
        this.#settle((each) => each.reject(error));
      }
    });
    // "close" follows every error.
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#settle((waiting) => waiting.reject(new Error("the server closed the connection")));
    });
  }

  /** `from` is the loopback address that it comes from. Rejects if the port is closed. */
  static async open(port: number, from?: string): Promise<KeptConnection> {
    const socket = connect({ host: "127.0.0.1", port, localAddress: from, noDelay: true });
    await once(socket, "connect");
    return new KeptConnection(socket);
  }

  /** Sends a whole request and waits for its response. Rejects if the connection ends first. */
  ask(request: string | Uint8Array): Promise<HttpMessage> {
    this.#socket.write(request);
    return this.next();
  }

  /** Waits for the next response. Rejects if the connection ends first. */
  next(): Promise<HttpMessage> {
    this.#waiting = Promise.withResolvers<HttpMessage>();
    const { promise } = this.#waiting;
    if (this.#socket.destroyed) this.#socket.emit("close");
    return promise;
  }

  /** Sends bytes without waiting for a response. */
  send(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  #settle(how: (waiting: PromiseWithResolvers<HttpMessage>) => void): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting !== null) how(waiting);
  }
}

export const JSON_TYPE = "Content-Type: application/json";

/** A request as it is sent over a kept connection: `line` is its method and path, `body` JSON. */
export function requestText(
  line: string,
  {
    secret,
    headers = [],
    body,
  }: {
    readonly secret?: string | undefined;
    /** Header lines. */
    readonly headers?: readonly string[] | undefined;
    readonly body?: string | undefined;
  } = {},
): string {
  const head = [`${line} HTTP/1.1`, "Host: 127.0.0.1", ...headers];
  if (secret !== undefined) head.push(`Authorization: Bearer ${secret}`);
  if (body === undefined) return `${head.join("\r\n")}\r\n\r\n`;
  head.push(JSON_TYPE, `Content-Length: ${Buffer.byteLength(body)}`);
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

const OK = "HTTP/1.1 200";

/** The body of a response. Throws unless it is 200. */
export function servedText(response: HttpMessage): string {
  if (response.head.startsWith(OK)) return response.body.toString("utf8");
  throw refusalOf(response);
}

/** Throws unless the response to a task_post is 200 and accepts every task. */
export function requireTaken(response: HttpMessage): void {
  const isTaken = response.head.startsWith(OK) && response.body.includes('"tasks_error":0');
  if (!isTaken) throw refusalOf(response);
}

function refusalOf({ head, body }: HttpMessage): Error {
  const excerpt = body.toString("utf8", 0, 500);
  return new Error(`the server responded ${head.split("\r\n", 1)[0]}: ${excerpt}`);
}

const postedTasks = z.object({
  tasks: z.array(z.object({ id: z.string(), status_code: z.number() })),
});

/** The ids in the response to a task_post. Throws if a task was refused. */
export function acceptedIds(text: string): readonly string[] {
  const { tasks } = postedTasks.parse(JSON.parse(text));
  const refused = tasks.some(({ status_code: code }) => code !== 20100);
  if (refused) throw new Error(`task_post refused a task: ${text.slice(0, 500)}`);
  return tasks.map(({ id }) => id);
}

const claimedLeases = z.object({
  tasks: z.array(z.object({ id: z.string(), lease_id: z.string() })),
});

/** A task that a worker has claimed. */
export type LeasedTask = Readonly<z.infer<typeof claimedLeases>["tasks"][number]>;

/** The tasks in the response to a claim. */
export function claimedTasks(text: string): readonly LeasedTask[] {
  return claimedLeases.parse(JSON.parse(text)).tasks;
}

/** A task_post request of `tasks` equal tasks. */
export function taskPostRequest(request: {
  readonly key: string;
  readonly tasks: number;
  readonly type: string;
  readonly postbackUrl?: string;
  readonly pingbackUrl?: string;
  readonly tag?: string;
}): string {
  const { key, tasks, type, tag, postbackUrl, pingbackUrl } = request;
  const task = {
    type,
    ...(tag && { tag }),
    ...(postbackUrl && { postback_url: postbackUrl }),
    ...(pingbackUrl && { pingback_url: pingbackUrl }),
    input: benchInput(),
  };
  const body = JSON.stringify(Array.from({ length: tasks }, () => task));
  return requestText("POST /v1/tasks/task_post", { secret: key, body });
}

/** The length of a task's input in bytes, as JSON text: the budgets are for this size. */
const INPUT_BYTES = 300;

/** An input of 300 bytes: ASCII only, so that characters are bytes. */
export function benchInput(): Readonly<Record<string, unknown>> {
  const input = { source: "s3://uploads/2026/clip.mov", width: 1280, height: 720, note: "" };
  return { ...input, note: "n".repeat(INPUT_BYTES - JSON.stringify(input).length) };
}

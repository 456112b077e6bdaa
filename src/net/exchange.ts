import { request as startRequest, type ClientRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";

import type { Clock, Timer } from "../domain/clock/clock.ts";
import { boundChunks, dropRest } from "../domain/json/small-chunks.ts";
import type { SendRequest } from "../domain/webhook/webhook-request.ts";
import { answerFailure } from "./failure.ts";

/** The result of one request on one connection. */
export type Exchange =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** At most the first 4 KiB of the body, as text. */
      readonly excerpt: string;
      /** The first `Retry-After` as sent; null where there is none, or none fit to be shown. */
      readonly retryAfter: string | null;
      /** From writing the request to reading the status. */
      readonly firstByteMs: number;
      /** The body ended by itself and the connection is open: it can carry another request. */
      readonly isReusable: boolean;
      /** How long the receiver says it keeps the connection; null where it does not say. */
      readonly keepAliveMs: number | null;
    }
  | {
      readonly kind: "broken";
      readonly error: string;
      /** 101 for a receiver that switched protocols, else null. */
      readonly status: number | null;
      /** Not one byte came back. */
      readonly isUnanswered: boolean;
    }
  /** `signal` was aborted before there was a status. */
  | { readonly kind: "cut" };

interface ExchangeOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Sends a request, exactly as given, over an open connection and reads the answer's status and the beginning of its
 * body. Never rejects. Unless the exchange is reusable, the connection is destroyed when this settles.
 *
 * This is node:http without an agent. An agent would bring its own pool and, some day, proxies from
 * the environment; undici fails an attempt at a mere "100 Continue", which RFC 9110 §15.2 lets a
 * receiver send unasked. Measured on loopback: 35,000 requests/s this way, 50,000 with undici,
 * 23,000 with an agent.
 */
export function exchange(
  socket: Socket,
  outgoing: SendRequest,
  options: ExchangeOptions,
): Promise<Exchange> {
  return new Promise((resolve) => {
    new OpenExchange(socket, { ...options, resolve }).start(outgoing);
  });
}

const HEADER_BYTES_MAX = 16_384;
const EXCERPT_BYTES_MAX = 4096;
// The status decides. The body is for the log alone, and waiting for it holds a place in a lane.
const BODY_MS_MAX = 1000;
// An HTTP date is 29 characters.
const RETRY_AFTER = /^[\x20-\x7e]{1,100}$/;
// One or two are usual ("100 Continue", "103 Early Hints"); an endless stream of them burns CPU for ever.
const INFORMATIONAL_MAX = 10;

/** waiting for the status → reading the body → settled; every failure settles at once. */
class OpenExchange {
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #resolve: (exchange: Exchange) => void;
  readonly #startedAt: number;
  readonly #bytesReadBefore: number;
  readonly #cut = (): void => this.#onCut();
  #request: ClientRequest | null = null;
  #response: IncomingMessage | null = null;
  #firstByteMs = 0;
  #informational = 0;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #bodyTimer: Timer | null = null;
  #hasEnded = false;
  #isSettled = false;

  constructor(
    socket: Socket,
    options: ExchangeOptions & { readonly resolve: (exchange: Exchange) => void },
  ) {
    this.#socket = socket;
    this.#clock = options.clock;
    this.#signal = options.signal;
    this.#resolve = options.resolve;
    this.#startedAt = options.clock.monotonic();
    this.#bytesReadBefore = socket.bytesRead;
  }

  start(outgoing: SendRequest): void {
    if (this.#signal.aborted) {
      this.#onCut();
      return;
    }
    this.#signal.addEventListener("abort", this.#cut);
    try {
      this.#request = this.#write(outgoing);
    } catch {
      // node:http refuses to write such a header or target: nothing was sent.
      this.#break("request cannot be written");
    }
  }

  #write(outgoing: SendRequest): ClientRequest {
    const { hostHeader: sender, requestTarget } = outgoing.target;
    const request = startRequest({
      createConnection: () => this.#socket,
      method: outgoing.method,
      path: requestTarget,
      headers: toHeaderList(outgoing),
      setHost: false,
      maxHeaderSize: HEADER_BYTES_MAX,
      insecureHTTPParser: false,
    });
    // Without an agent node:http would close the connection after the answer.
    request.shouldKeepAlive = true;
    request.on("response", (response) => this.#onResponse(response, sender));
    request.on("information", () => this.#onInformation());
    request.on("upgrade", () => this.#break(SWITCHED, 101));
    request.on("error", (error) => this.#onEnd(answerFailure(error)));
    request.on("close", () => this.#onEnd("connection was closed without an answer"));
    if (outgoing.body === null) request.end();
    else request.end(outgoing.body);
    return request;
  }

  #onInformation(): void {
    this.#informational += 1;
    if (this.#informational > INFORMATIONAL_MAX) this.#break("too many informational answers");
  }

  #onResponse(response: IncomingMessage, sender: string): void {
    if (this.#isSettled) return;
    if (response.statusCode === 101) {
      this.#break(SWITCHED, 101);
      return;
    }
    this.#response = response;
    this.#firstByteMs = this.#clock.monotonic() - this.#startedAt;
    this.#bodyTimer = this.#clock.setTimer(BODY_MS_MAX, () => this.#answer(false));
    boundChunks(response, { sender, onTooMany: () => this.#answer(false) });
    response.on("data", (chunk: Buffer) => this.#onData(chunk));
    response.on("end", () => this.#onBodyEnd());
    response.on("error", () => {
      // A body that breaks off does not change the status; "close" follows.
    });
  }

  #onData(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes > EXCERPT_BYTES_MAX) this.#answer(false);
  }

  #onBodyEnd(): void {
    this.#hasEnded = true;
    const request = this.#request;
    // node:http lets go of the connection when both sides are done, and then emits "close". After an answer to a
    // half-sent request, the rest of that request stands in the way of the next one.
    const isFreed = request?.shouldKeepAlive === true && request.writableFinished;
    if (!isFreed) this.#answer(false);
  }

  #onEnd(error: string): void {
    if (this.#response === null) this.#break(error);
    else this.#answer(this.#hasEnded && this.#socket.writable);
  }

  #onCut(): void {
    if (this.#response === null) this.#settle({ kind: "cut" });
    else this.#answer(false);
  }

  #break(error: string, status: number | null = null): void {
    const isUnanswered = this.#socket.bytesRead === this.#bytesReadBefore;
    this.#settle({ kind: "broken", error, status, isUnanswered });
  }

  #answer(isReusable: boolean): void {
    const response = this.#response;
    if (response === null || this.#isSettled) return;
    this.#settle({
      kind: "answered",
      status: response.statusCode ?? 0,
      excerpt: toExcerpt(this.#chunks),
      retryAfter: toRetryAfter(response.rawHeaders),
      firstByteMs: this.#firstByteMs,
      isReusable,
      keepAliveMs: isReusable ? toKeepAliveMs(response.rawHeaders) : null,
    });
  }

  #settle(end: Exchange): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#bodyTimer?.cancel();
    this.#signal.removeEventListener("abort", this.#cut);
    const isReusable = end.kind === "answered" && end.isReusable;
    if (!isReusable) {
      dropRest(this.#socket);
      this.#request?.destroy();
      this.#socket.destroy();
    }
    this.#resolve(end);
  }
}

const SWITCHED = "receiver switched protocols";

// Host, Content-Length and Connection are written here and nowhere else.
function toHeaderList({ target, headers, body, method }: SendRequest): readonly string[] {
  const list = ["Host", target.hostHeader];
  for (const [name, value] of Object.entries(headers)) list.push(name, value);
  if (method === "POST") list.push("Content-Length", String(Buffer.byteLength(body ?? "")));
  list.push("Connection", "keep-alive");
  return list;
}

function toExcerpt(chunks: readonly Buffer[]): string {
  const body = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
  if (body.length <= EXCERPT_BYTES_MAX) return body.toString("utf8");
  // `stream` leaves out a character that the limit cuts in two, instead of showing it as broken.
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(body.subarray(0, EXCERPT_BYTES_MAX), {
    stream: true,
  });
}

// Reads `rawHeaders` (names and values in turn), because `headers` parses every one of them: 4 µs per answer.
function toKeepAliveMs(rawHeaders: readonly string[]): number | null {
  const seconds = /\btimeout=(\d{1,6})/i.exec(headerOf(rawHeaders, "keep-alive") ?? "")?.[1];
  return seconds === undefined ? null : Number(seconds) * 1000;
}

// The value is stored and shown, and a receiver may send anything: drop what neither a date nor a number needs.
function toRetryAfter(rawHeaders: readonly string[]): string | null {
  const value = headerOf(rawHeaders, "retry-after");
  return value !== undefined && RETRY_AFTER.test(value) ? value : null;
}

/** The first value of a header, by its name in lower case. */
function headerOf(rawHeaders: readonly string[], name: string): string | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const text = rawHeaders[index] ?? "";
    if (text.length === name.length && text.toLowerCase() === name) return rawHeaders[index + 1];
  }
  return undefined;
}

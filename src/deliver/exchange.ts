import type { Socket } from "node:net";

import type { Clock, Timer } from "../domain/clock/clock.ts";
import type { SendRequest } from "../domain/webhook/webhook-request.ts";
import { type AnswerFault, AnswerReader } from "./answer-reader.ts";
import { CLOSED, answerFailure } from "./failure.ts";

export type Exchange =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** At most the first 4 KiB of the body, as text. */
      readonly excerpt: string;
      /** The first `Retry-After` as sent; null without one, or if it cannot be shown. */
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
  /** It was cut off before there was a status. */
  | { readonly kind: "cut" };

/** The events that may abort an exchange. */
interface ExchangeLimit {
  readonly isCut: boolean;
  /** Calls back at most once, when it is cut; null forgets who was to be called. */
  whenCut(listener: (() => void) | null): void;
}

interface ExchangeOptions {
  readonly clock: Clock;
  readonly limit: ExchangeLimit;
}

/**
 * Sends a request, exactly as given, over an open connection and reads the answer's status and the beginning of its
 * body. Never rejects. Unless the exchange is reusable, the connection is destroyed when this settles.
 *
 * It speaks HTTP/1.1 by itself. The whole of a delivery over a connection that is kept takes 31 µs of this thread so, and
 * 77 by node:http without an agent, of which the bytes alone are 11 (measured in one run on a busy machine, 2026-11-26).
 * undici fails an attempt at a mere "100 Continue", which RFC 9110 §15.2 lets a receiver send unasked.
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

// The status line decides. The rest is for the log and for the next request, and waiting for it holds a slot of a lane.
const REST_MS_MAX = 1000;

const FAULTS: Readonly<Record<AnswerFault, string>> = {
  malformed: "response is not valid HTTP",
  oversized: "response headers are too large",
  switched: "receiver switched protocols",
  informational: "too many informational responses",
};

/** waiting for the status line → reading the rest → settled; every failure settles immediately. */
class OpenExchange {
  readonly #socket: Socket;
  readonly #options: ExchangeOptions;
  readonly #resolve: (exchange: Exchange) => void;
  readonly #reader = new AnswerReader();
  readonly #startedAt: number;
  #firstByteMs = 0;
  #isUnanswered = true;
  #restTimer: Timer | null = null;
  #isSettled = false;

  constructor(
    socket: Socket,
    { resolve, ...options }: ExchangeOptions & { readonly resolve: (exchange: Exchange) => void },
  ) {
    this.#socket = socket;
    this.#options = options;
    this.#resolve = resolve;
    this.#startedAt = options.clock.monotonic();
  }

  start(outgoing: SendRequest): void {
    const { limit } = this.#options;
    const head = requestHead(outgoing);
    if (limit.isCut) this.#onCut();
    else if (head === null) this.#break("request cannot be written");
    else {
      limit.whenCut(this.#onCut);
      this.#listen();
      this.#write(head, outgoing.body);
    }
  }

  #listen(): void {
    const socket = this.#socket;
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("error", this.#onError);
    socket.on("close", this.#onEnd);
  }

  // In one write where that is possible: one packet, and one call of the system.
  #write(head: string, body: SendRequest["body"]): void {
    const socket = this.#socket;
    if (body === null) socket.write(head, "latin1");
    else if (typeof body === "string") socket.write(head + body, "utf8");
    else {
      socket.cork();
      socket.write(head, "latin1");
      socket.write(body);
      socket.uncork();
    }
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#isUnanswered = false;
    const reader = this.#reader;
    const hadHead = reader.head !== null;
    reader.take(bytes);
    if (reader.fault !== null) {
      this.#break(FAULTS[reader.fault], reader.fault === "switched" ? 101 : null);
      return;
    }
    if (reader.head === null) return;
    if (!hadHead) this.#firstByteMs = this.#options.clock.monotonic() - this.#startedAt;
    if (reader.isOver) this.#answer();
    else this.#restTimer ??= this.#options.clock.setTimer(REST_MS_MAX, () => this.#answer());
  };

  readonly #onEnd = (): void => this.#fail(CLOSED);

  readonly #onError = (error: Error): void => this.#fail(answerFailure(error));

  readonly #onCut = (): void => {
    if (this.#reader.head === null) this.#settle({ kind: "cut" });
    else this.#answer();
  };

  // A connection that breaks off after the status line does not change the status.
  #fail(error: string): void {
    if (this.#reader.head === null) this.#break(error);
    else this.#answer();
  }

  #break(error: string, status: number | null = null): void {
    this.#settle({ kind: "broken", error, status, isUnanswered: this.#isUnanswered });
  }

  #answer(): void {
    const { head, isComplete } = this.#reader;
    if (head === null) return;
    // After an answer to a half-sent request, the rest of that request stands in the way of the next one.
    const isSent = this.#socket.writableLength === 0;
    const isReusable = isComplete && head.staysOpen && isSent && this.#socket.writable;
    this.#settle({
      kind: "answered",
      status: head.status,
      excerpt: this.#reader.excerpt(),
      retryAfter: head.retryAfter,
      firstByteMs: this.#firstByteMs,
      isReusable,
      keepAliveMs: isReusable ? head.keepAliveMs : null,
    });
  }

  #settle(end: Exchange): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#restTimer?.cancel();
    this.#options.limit.whenCut(null);
    const socket = this.#socket;
    socket.off("data", this.#onData);
    socket.off("end", this.#onEnd);
    socket.off("error", this.#onError);
    socket.off("close", this.#onEnd);
    if (end.kind !== "answered" || !end.isReusable) socket.destroy();
    this.#resolve(end);
  }
}

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// No value contains a character that could end a line or be ambiguous; the target of a request has no spaces either.
const VALUE = /^[\t\x20-\x7e]*$/;
const TARGET = /^[\x21-\x7e]+$/;

/** The head of a request in ASCII with the empty line behind it; null if a part of it could begin another line. */
function requestHead(request: SendRequest): string | null {
  const { method, target, headers, body } = request;
  const { hostHeader, requestTarget } = target;
  if (!TARGET.test(requestTarget) || !TARGET.test(hostHeader)) return null;
  let head = `${method} ${requestTarget} HTTP/1.1\r\nHost: ${hostHeader}\r\n`;
  for (const [name, value] of Object.entries(headers)) {
    if (!NAME.test(name) || !VALUE.test(value)) return null;
    head += `${name}: ${value}\r\n`;
  }
  if (method === "POST") head += `Content-Length: ${Buffer.byteLength(body ?? "")}\r\n`;
  return `${head}Connection: keep-alive\r\n\r\n`;
}

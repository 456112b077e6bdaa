import { Agent as HttpAgent, request as requestHttp } from "node:http";
import type { AgentOptions, ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";

import { GrowingBytes, boundChunks, dropRest } from "../domain/json/chunks.ts";
import { serviceFailure } from "./service-failure.ts";
import { trustContext } from "./trust.ts";

/** The result of one request. Every `error` is one of a few fixed phrases and names no address. */
export type ServiceAnswer =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** Names in lower case. */
      readonly headers: IncomingHttpHeaders;
      /** The whole body of a 2xx; of any other answer at most the first {@link OTHER_BODY_BYTES_MAX} bytes. */
      readonly body: Buffer;
    }
  /** A 2xx with more than `bytesMax` bytes; its connection is closed. */
  | { readonly kind: "too_long"; readonly status: number }
  /** The bytes that came are no valid HTTP answer: another try would bring the same. */
  | { readonly kind: "malformed"; readonly error: string }
  /** No whole answer came. Another try may succeed, and the service may have done its work all the same. */
  | { readonly kind: "unreachable"; readonly error: string }
  /** `signal` was aborted first. */
  | { readonly kind: "aborted" };

/** One GET. */
export interface ServiceGet {
  /** By lower-case name. The client adds Host, Content-Length, Connection and Accept-Encoding itself. */
  readonly headers: Readonly<Record<string, string>>;
  /** The most bytes that a 2xx answer may hold; exactly so many are accepted. */
  readonly bytesMax: number;
  /** Ends the request at once. */
  readonly signal: AbortSignal;
}

/** One POST. */
export interface ServicePost extends ServiceGet {
  readonly body: string | Uint8Array;
}

/** A request; one without a body is a GET. */
type ServiceRequest = ServiceGet & Partial<ServicePost>;

/** A client of the operator's own services. */
export interface ServiceClient {
  /**
   * Sends a POST and reads its answer. Rejects for headers that cannot be written, and for nothing else. Nothing of
   * the request is left when it settles: its connection is closed, or idle and good for the next request. Only
   * `signal` limits its time.
   */
  post(url: URL, post: ServicePost): Promise<ServiceAnswer>;
  /** Sends a GET, under the same rules. */
  get(url: URL, get: ServiceGet): Promise<ServiceAnswer>;
  /** Closes every connection; requests under way end as `unreachable`. */
  close(): void;
}

export interface ServiceClientOptions {
  readonly socketsMax: number;
  /** Authorities to trust as well, as PEM. */
  readonly authorities?: readonly string[];
}

/** How much is read of an answer other than 2xx: its status decides, its body is for people. */
export const OTHER_BODY_BYTES_MAX = 8192;

// Servers keep idle connections for 2 s (gunicorn) to 5 s (Node, uvicorn): after a longer wait most are closed.
const IDLE_MS_MAX = 4000;
const HEADER_BYTES_MAX = 16_384;
// One or two are usual ("100 Continue", "103 Early Hints"); an endless stream of them burns CPU for ever.
const INFORMATIONAL_MAX = 10;

/**
 * Makes a client for services that the operator configured: no rule for webhooks applies. The system resolves the
 * names; no redirect is followed, nothing is decompressed, proxy variables are ignored. Certificates are checked,
 * whatever NODE_TLS_REJECT_UNAUTHORIZED says, against the authorities of {@link trustContext}. Idle connections are kept for 4 s and keep no process alive. Beyond `socketsMax` requests at
 * once the next one waits.
 */
export function createServiceClient(options: ServiceClientOptions): ServiceClient {
  const { authorities = [] } = options;
  const turns = new Turns(options.socketsMax);
  const agents = new Map<string, Agent>();
  let isClosed = false;
  const ask = async (url: URL, asked: ServiceRequest): Promise<ServiceAnswer> => {
    const agent = agents.get(url.protocol) ?? newAgent(url, POOL, authorities);
    agents.set(url.protocol, agent);
    if (!(await turns.take(asked.signal))) return { kind: "aborted" };
    try {
      const first = await askOnce(url, { asked, agent });
      if (!first.isStale || isClosed) return first.answer;
      // The server closed an idle connection just as it was used again. Nobody is to blame, so nobody sees it.
      const second = await askOnce(url, {
        asked,
        agent: newAgent(url, { keepAlive: false }, authorities),
      });
      return second.answer;
    } finally {
      turns.give();
    }
  };
  return {
    post: ask,
    get: ask,
    close() {
      isClosed = true;
      for (const agent of agents.values()) agent.destroy();
    },
  };
}

const POOL: AgentOptions = { keepAlive: true, timeout: IDLE_MS_MAX };

type Agent = HttpAgent | HttpsAgent;

function newAgent({ protocol }: URL, options: AgentOptions, authorities: readonly string[]): Agent {
  if (protocol !== "https:") return new HttpAgent(options);
  const secureContext = trustContext(authorities);
  return new HttpsAgent({ ...options, rejectUnauthorized: true, secureContext });
}

interface Ended {
  readonly answer: ServiceAnswer;
  /** The connection had been used before and broke before any byte of an answer came. */
  readonly isStale: boolean;
}

interface AskOptions {
  readonly asked: ServiceRequest;
  readonly agent: Agent;
}

function askOnce(url: URL, options: AskOptions): Promise<Ended> {
  if (options.asked.signal.aborted) {
    return Promise.resolve({ answer: { kind: "aborted" }, isStale: false });
  }
  return new Promise((resolve) => {
    new OpenRequest(options.asked, resolve).start(url, options.agent);
  });
}

/** request written → status read → body read → closed; the first decision counts. */
class OpenRequest {
  readonly #asked: ServiceRequest;
  readonly #resolve: (ended: Ended) => void;
  readonly #abort = (): void => this.#onAbort();
  #request: ClientRequest | null = null;
  #response: IncomingMessage | null = null;
  #body: GrowingBytes | null = null;
  #informational = 0;
  #answer: ServiceAnswer | null = null;

  constructor(asked: ServiceRequest, resolve: (ended: Ended) => void) {
    this.#asked = asked;
    this.#resolve = resolve;
  }

  start(url: URL, agent: Agent): void {
    const { headers, body, signal } = this.#asked;
    const startRequest = url.protocol === "https:" ? requestHttps : requestHttp;
    const request = startRequest(url, {
      method: body === undefined ? "GET" : "POST",
      agent,
      headers: {
        ...headers,
        "accept-encoding": "identity",
        ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
      },
      maxHeaderSize: HEADER_BYTES_MAX,
      insecureHTTPParser: false,
    });
    this.#request = request;
    signal.addEventListener("abort", this.#abort);
    request.on("information", () => this.#onInformation());
    request.on("response", (response) => this.#onResponse(response, url));
    request.on("upgrade", (response) => this.#onSwitched(response));
    request.on("error", (error) => this.#onError(error));
    request.on("close", () => this.#onClose());
    request.end(body);
  }

  #onInformation(): void {
    this.#informational += 1;
    if (this.#informational <= INFORMATIONAL_MAX) return;
    this.#end({ kind: "malformed", error: "too many informational answers" });
  }

  #onSwitched({ headers }: IncomingMessage): void {
    this.#end({ kind: "answered", status: 101, headers, body: Buffer.alloc(0) });
  }

  #onResponse(response: IncomingMessage, { host: sender }: URL): void {
    if (response.statusCode === 101) {
      this.#onSwitched(response);
      return;
    }
    this.#response = response;
    const isResult = isSuccess(response);
    this.#body = new GrowingBytes(isResult ? this.#asked.bytesMax : OTHER_BODY_BYTES_MAX);
    boundChunks(response, { sender, onTooMany: () => this.#onTooFine(response) });
    response.on("data", (chunk: Buffer) => this.#onData(chunk));
    response.on("end", () => this.#onEnd());
    // A body that broke off, with the request's own error; "close" follows.
    response.on("error", (error) => this.#onError(error));
    response.on("close", () => this.#onClose());
  }

  #onData(chunk: Buffer): void {
    const response = this.#response;
    if (response === null || this.#body === null) return;
    const isAll = this.#body.add(chunk);
    if (this.#body.isTooFine) this.#onTooFine(response);
    else if (isAll) return;
    else if (isSuccess(response)) this.#end({ kind: "too_long", status: response.statusCode ?? 0 });
    else this.#end(this.#wholeAnswer(response));
  }

  #onTooFine(response: IncomingMessage): void {
    if (isSuccess(response)) this.#end({ kind: "malformed", error: "too many small chunks" });
    else this.#endEarly(response);
  }

  /** Ends with the part of the body that has come. */
  #endEarly(response: IncomingMessage): void {
    // Some bytes may not have been handed on yet.
    response.read();
    this.#end(this.#wholeAnswer(response));
  }

  #onEnd(): void {
    const { shouldKeepAlive = false, writableFinished = false } = this.#request ?? {};
    if (this.#response === null) return;
    this.#answer ??= this.#wholeAnswer(this.#response);
    // After an answer to a half-sent request, the rest of that request stands in the way of the next one.
    if (!shouldKeepAlive || !writableFinished) this.#request?.destroy();
    this.#onClose();
  }

  #onError(error: unknown): void {
    const response = this.#response;
    // Bytes after a whole answer do not belong to it; "end" is still to come.
    if (response?.complete === true) return;
    if (response !== null && !isSuccess(response)) this.#endEarly(response);
    else this.#end(serviceFailure(error, { hasBegun: response !== null }));
  }

  #onAbort(): void {
    const response = this.#response;
    const isDecided = response !== null && !isSuccess(response);
    this.#end(isDecided ? this.#wholeAnswer(response) : { kind: "aborted" });
  }

  #wholeAnswer({ statusCode, headers }: IncomingMessage): ServiceAnswer {
    const body = this.#body?.bytes() ?? Buffer.alloc(0);
    return { kind: "answered", status: statusCode ?? 0, headers, body };
  }

  /** Decides the answer and breaks the request off. */
  #end(answer: ServiceAnswer): void {
    this.#answer ??= answer;
    const socket = this.#request?.socket ?? null;
    if (socket !== null) dropRest(socket);
    this.#request?.destroy();
  }

  // The request's own "close" means that its connection is closed, or free again. The end of a whole answer may be
  // announced a moment later.
  #onClose(): void {
    const request = this.#request;
    const response = this.#response;
    if (request?.closed !== true) return;
    if (this.#answer === null && response?.complete === true && !response.destroyed) return;
    this.#asked.signal.removeEventListener("abort", this.#abort);
    const hasNothing = response === null && this.#informational === 0;
    const answer = this.#answer ?? serviceFailure(null, { hasBegun: response !== null });
    const isStale = answer.kind === "unreachable" && request.reusedSocket && hasNothing;
    this.#resolve({ answer, isStale });
  }
}

function isSuccess({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode <= 299;
}

/**
 * Limits the requests at once; the others wait in their order. An agent has a queue of its own, but it opens
 * connections for requests that were destroyed while they waited in it, and hands them out half dead (Node 24.21).
 */
class Turns {
  #left: number;
  readonly #waiting = new Set<() => void>();

  constructor(max: number) {
    this.#left = max;
  }

  /** True with a turn, which must be given back; false without one, when the signal is aborted first. */
  take(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    if (this.#left > 0) {
      this.#left -= 1;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const leave = (hasTurn: boolean): void => {
        this.#waiting.delete(enter);
        signal.removeEventListener("abort", abort);
        resolve(hasTurn);
      };
      const enter = (): void => leave(true);
      const abort = (): void => leave(false);
      this.#waiting.add(enter);
      signal.addEventListener("abort", abort);
    });
  }

  give(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#left += 1;
    else next();
  }
}

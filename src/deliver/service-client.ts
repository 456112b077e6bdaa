import {
  Agent as HttpAgent,
  type AgentOptions,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestHttp,
} from "node:http";
import { Agent as HttpsAgent, request as requestHttps } from "node:https";

import { codeOf } from "../domain/error.ts";
import { GrowingBytes, boundChunks } from "../domain/json/chunks.ts";
import { dropRest } from "../node-internals.ts";
import { CLOSED, answerFailure, connectFailure, isTlsFailure, tlsFailure } from "./failure.ts";
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
  /** The received bytes are not a valid HTTP response: another try would have the same result. */
  | { readonly kind: "malformed"; readonly error: string }
  /** No whole answer came. Another try may succeed, and the service may nevertheless have done its work. */
  | { readonly kind: "unreachable"; readonly error: string }
  /** `signal` was aborted first. */
  | { readonly kind: "aborted" };

interface ServiceGet {
  /** By lower-case name. The client adds Host, Content-Length, Connection and Accept-Encoding itself. */
  readonly headers: Readonly<Record<string, string>>;
  /** The most bytes that a 2xx answer may hold; exactly so many are accepted. */
  readonly bytesMax: number;
  /** Ends the request immediately. */
  readonly signal: AbortSignal;
}

export interface ServicePost extends ServiceGet {
  readonly body: string | Uint8Array;
}

type ServiceRequest = ServiceGet & Partial<ServicePost>;

export interface ServiceClient {
  /**
   * Rejects only for headers that cannot be written. When it settles, the connection is closed or free for the next
   * request. Only `signal` limits the time.
   */
  post(url: URL, post: ServicePost): Promise<ServiceAnswer>;
  get(url: URL, get: ServiceGet): Promise<ServiceAnswer>;
  /** Closes every connection; requests in progress end as `unreachable`. */
  close(): void;
}

interface ServiceClientOptions {
  readonly socketsMax: number;
  /** Authorities to trust as well, as PEM. */
  readonly authorities?: readonly string[];
  /** False accepts any certificate. */
  readonly isCertificateChecked?: boolean;
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
 * names; no redirect is followed, nothing is decompressed, proxy variables are ignored. Certificates are always checked
 * against the authorities of {@link trustContext}; NODE_TLS_REJECT_UNAUTHORIZED is ignored. Idle connections are kept
 * for 4 s and keep no process alive. Beyond `socketsMax` requests in progress the next one waits.
 */
export function createServiceClient(options: ServiceClientOptions): ServiceClient {
  const turns = new Turns(options.socketsMax);
  const agents = new Map<string, Agent>();
  let isClosed = false;
  const ask = async (url: URL, asked: ServiceRequest): Promise<ServiceAnswer> => {
    const agent = agents.get(url.protocol) ?? newAgent(url, POOL, options);
    agents.set(url.protocol, agent);
    if (!(await turns.take(asked.signal))) return { kind: "aborted" };
    try {
      const first = await askOnce(url, asked, agent);
      if (!first.isStale || isClosed) return first.answer;
      // The server closed an idle connection just as it was used again, which is not a failure.
      const second = await askOnce(url, asked, newAgent(url, { keepAlive: false }, options));
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

function newAgent(
  { protocol }: URL,
  options: AgentOptions,
  { authorities, isCertificateChecked = true }: ServiceClientOptions,
): Agent {
  if (protocol !== "https:") return new HttpAgent(options);
  if (!isCertificateChecked) return new HttpsAgent({ ...options, rejectUnauthorized: false });
  const secureContext = trustContext(authorities);
  return new HttpsAgent({ ...options, rejectUnauthorized: true, secureContext });
}

interface Ended {
  readonly answer: ServiceAnswer;
  /** The connection had been used before and broke before any byte of an answer came. */
  readonly isStale: boolean;
}

async function askOnce(url: URL, asked: ServiceRequest, agent: Agent): Promise<Ended> {
  if (asked.signal.aborted) return { answer: { kind: "aborted" }, isStale: false };
  return new Promise((resolve) => new OpenRequest(asked, resolve).start(url, agent));
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
    this.#end({ kind: "malformed", error: "too many informational responses" });
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
    const onTooMany = (): void => {
      dropRest(response.socket);
      this.#onTooFine(response);
    };
    boundChunks(response, { sender, onTooMany });
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

  // The request closes when its connection is closed or free; the end of a whole body may come a moment later.
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

/** Limits concurrent requests. An agent's own queue opens connections for requests that were destroyed in it. */
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

// Codes of the system's own look-up of a name, which webhooks never use.
const LOOKUP_FAILURES: ReadonlyMap<string, string> = new Map([
  ["ENOTFOUND", "name not found"],
  ["EAI_AGAIN", "name server did not respond"],
]);

/** A null error is a connection that closed. Bytes that are not HTTP are `malformed`, all else is `unreachable`. */
export function serviceFailure(
  error: unknown,
  { hasBegun }: { readonly hasBegun: boolean },
): { readonly kind: "malformed" | "unreachable"; readonly error: string } {
  const code = codeOf(error) ?? "";
  if (code.startsWith("HPE_")) return { kind: "malformed", error: answerFailure(error) };
  if (hasBegun) return { kind: "unreachable", error: "answer broke off" };
  return { kind: "unreachable", error: LOOKUP_FAILURES.get(code) ?? connectionFailure(error) };
}

function connectionFailure(error: unknown): string {
  const code = codeOf(error) ?? "";
  if (code === "" || code === "ECONNRESET" || code === "EPIPE") return CLOSED;
  if (isTlsFailure(error)) return tlsFailure(error);
  return code.startsWith("ERR_SSL_") ? "TLS failed" : connectFailure(error);
}

/** The result of a GET. A failure is one of a few fixed phrases. */
export type Probe =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly body: string;
      /** `dev` of a daemon for development. */
      readonly mode: string | null;
    }
  | { readonly kind: "failed"; readonly error: string };

// Our own responses are one line; a longer one comes from some other program.
const PROBE_BYTES_MAX = 4096;

/** Sends one GET on a connection of its own, until `signal`. The body of a longer 2xx response is not read. */
export async function probe(
  url: URL,
  options: { readonly isCertificateChecked: boolean; readonly signal: AbortSignal },
): Promise<Probe> {
  const { isCertificateChecked, signal } = options;
  const client = createServiceClient({ socketsMax: 1, isCertificateChecked });
  const headers = { accept: "application/json" };
  const answer = await client.get(url, { headers, bytesMax: PROBE_BYTES_MAX, signal });
  client.close();
  if (answer.kind === "aborted") return { kind: "failed", error: "no answer in time" };
  if (answer.kind === "too_long") return { ...answer, kind: "answered", body: "", mode: null };
  if (answer.kind !== "answered") return { kind: "failed", error: answer.error };
  const mode = answer.headers["x-postbackd-mode"]?.toString() ?? null;
  const body = answer.body.toString("utf8", 0, PROBE_BYTES_MAX);
  return { kind: "answered", status: answer.status, body, mode };
}

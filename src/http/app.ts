import type { IncomingMessage } from "node:http";

import { H3, HTTPError, type H3Event } from "h3";

import type { Clock } from "../domain/clock.ts";
import type { IdGenerator } from "../domain/id.ts";
import type { Logger } from "../domain/log.ts";
import { StatusError } from "../domain/status.ts";
import { authenticate, type KeyStore } from "./authenticate.ts";
import { ClientGoneError, readJsonBody } from "./body.ts";
import type { Answer, Operation } from "./operation.ts";
import { headerValues } from "./raw-headers.ts";
import { toErrorAnswer, toResponse, toStatusError } from "./respond.ts";

export interface AppDeps {
  readonly operations: readonly Operation[];
  readonly store: KeyStore;
  readonly clock: Clock;
  readonly ids: IdGenerator;
  readonly log: Logger;
  readonly bodyBytesMax: number;
}

/**
 * The h3 application. Checks come in the contract's order (§1): path, method, credentials, media type, size,
 * JSON, fields; whatever goes wrong is answered in the contract's shape, with a request id.
 */
export function createApp(deps: AppDeps): H3 {
  // Silent, because h3 prints a stack for every client that hangs up; `onError` logs what is worth it.
  const app = new H3({
    silent: true,
    onError: (error, event) => answerError(error, { deps, event, requestId: newRequestId(deps) }),
  });
  for (const [path, methods] of Map.groupBy(deps.operations, ({ path }) => path)) {
    app.all(path, (event) => serve(methods, event, deps));
  }
  return app;
}

async function serve(
  methods: readonly Operation[],
  event: H3Event,
  deps: AppDeps,
): Promise<Response> {
  const requestId = newRequestId(deps);
  try {
    return toResponse(await callOperation(methods, event, deps), requestId);
  } catch (error) {
    return answerError(error, { deps, event, requestId });
  }
}

async function callOperation(
  methods: readonly Operation[],
  event: H3Event,
  deps: AppDeps,
): Promise<Answer> {
  const { method } = event.req;
  const isHead = method === "HEAD";
  const operation = methods.find((each) => each.method === (isHead ? "GET" : method));
  if (operation === undefined) throw methodNotAllowed(methods);
  const request = nodeRequest(event);
  checkHost(request);
  const call = { params: event.context.params ?? {}, now: deps.clock.now() };
  if (operation.method === "POST") {
    const holder = await authenticate(request, deps.store);
    refuseIdempotencyKey(request);
    const body = await readJsonBody(request, { bytesMax: deps.bodyBytesMax });
    return operation.handle({ ...call, holder, body });
  }
  const getCall = { ...call, query: event.url.searchParams, isHead };
  if (operation.access === "public") return operation.handle(getCall);
  return operation.handle({ ...getCall, holder: await authenticate(request, deps.store) });
}

function methodNotAllowed(methods: readonly Operation[]): StatusError {
  const allowed = methods.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
  return new StatusError(40500, { headers: { allow: allowed.join(", ") } });
}

// RFC 9112 §3.2. Nothing here reads the host, but whatever stands in front may route by it, and by
// another one than was meant when there are two.
function checkHost(request: IncomingMessage): void {
  const { length } = headerValues(request, "host");
  if (length === 1 || (length === 0 && request.httpVersion === "1.0")) return;
  const detail = "Send one Host header.";
  throw new StatusError(40000, { details: [{ pointer: "", detail }] });
}

// It comes with a later release. Ignored, it would let a client that trusts in it do its work twice.
function refuseIdempotencyKey(request: IncomingMessage): void {
  if (headerValues(request, "idempotency-key").length === 0) return;
  const detail = "Idempotency-Key is not supported in this release: leave the header out.";
  throw new StatusError(40000, { details: [{ pointer: "", detail }] });
}

function nodeRequest(event: H3Event): IncomingMessage {
  const request = event.runtime?.node?.req;
  if (request === undefined) throw new Error("the app is served by Node's HTTP server only");
  // srvx types it for HTTP/1 and HTTP/2; server.ts opens an HTTP/1 server.
  return request as IncomingMessage;
}

function newRequestId(deps: AppDeps): string {
  return deps.ids.next(deps.clock.now());
}

interface ErrorContext {
  readonly deps: AppDeps;
  readonly event: H3Event;
  readonly requestId: string;
}

function answerError(error: unknown, { deps, event, requestId }: ErrorContext): Response {
  if (error instanceof ClientGoneError) return toResponse({ status: 400, text: "" }, requestId);
  const known = toStatusError(error) ?? toRoutingError(error);
  if (known !== null) return toResponse(toErrorAnswer(known), requestId);
  // The pathname only: the query may hold anything.
  const facts = { err: error, requestId, method: event.req.method, path: event.url.pathname };
  deps.log.error(facts, "a request ended in an unexpected error");
  return toResponse(toErrorAnswer(new StatusError(50000)), requestId);
}

// What h3 itself refuses before any of our code runs: an unknown path, or one that cannot be decoded.
function toRoutingError(error: unknown): StatusError | null {
  if (!HTTPError.isError(error) || error.unhandled === true) return null;
  if (error.status === 404) return new StatusError(40400);
  return error.status >= 400 && error.status < 500 ? new StatusError(40000) : null;
}

import type { IncomingMessage } from "node:http";

import { H3, type H3Event, HTTPError } from "h3";

import type { OperationInputs } from "../api/input.ts";
import { version } from "../assets.ts";
import { type Clock, systemClock } from "../domain/clock/clock.ts";
import type { IdGenerator } from "../domain/id.ts";
import type { Logger } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import { type ResponseHeaders, StatusError } from "../domain/status.ts";
import { requestHooks } from "./access-log.ts";
import { connectionOf, whenAnswered } from "./admission/connections.ts";
import { ROOM_BYTES_MIN, LARGEST_BODIES, UNCHECKED_MS_MAX } from "./admission/limits.ts";
import { ByteBudget, RequestRoom, type SharedRoom, WaitPlaces } from "./admission/room.ts";
import {
  type BodyLimits,
  type BodyRoom,
  ClientGoneError,
  PLAIN_READING,
  bodyBytesMax,
  largestBody,
  parseBody,
  readBodyBytes,
} from "./body.ts";
import { guardDeveloper, isFromPage, toBrowserPolicy } from "./guard/browser.ts";
import { arrivalOf, headerValues, strictTransport } from "./guard/client.ts";
import { type GateDeps, admit, clientKey, requireHttps } from "./guard/gate.ts";
import { type InboxReceiver, answerMessage } from "./inbox.ts";
import { checkEscapes, parseFields, parseQuery } from "./inputs.ts";
import { inTurns, openApiDocument } from "./openapi/document.ts";
import type { OperationDeps } from "./operation-deps.ts";
import {
  type AnyFields,
  type Call,
  type FieldsAnswer,
  type GivenBody,
  type Operation,
  type WholeAnswer,
  isForHttpsAlone,
  isKeptByNobody,
  isParsedByOperation,
  takesBody,
} from "./operation.ts";
import { metrics } from "./operations/service.ts";
import { DASHBOARD_PATH, type PageFiles, servePage, serveReference, serveRoot } from "./page.ts";
import { referenceFiles } from "./reference/files.ts";
import { REFERENCE_PATH } from "./reference/markup.ts";
import {
  NO_STORE,
  type Reply,
  envelope,
  pageAnswer,
  toErrorAnswer,
  toResponse,
  toStatusError,
} from "./respond.ts";

export interface AppDeps {
  readonly operations: readonly Operation[];
  readonly gate: GateDeps;
  readonly clock: Clock;
  readonly ids: IdGenerator;
  readonly log: Logger;
  readonly limits: BodyLimits & { readonly connections: number };
  /** The dashboard's files; null serves the API's reference alone, and without it no page is served. */
  readonly pages?: PageFiles | null;
  readonly observer?: Observer | undefined;
  /** Headers that every answer has. */
  readonly headers?: ResponseHeaders;
  /** Receives messages of tests; without it nothing does. */
  readonly inbox?: InboxReceiver;
  /** True to log a line for each request. */
  readonly logsRequests?: boolean;
}

/**
 * The h3 application. Checks come in the order of http-api.md: path, method, credentials, media type, size, JSON,
 * fields; every error is answered in the contract's shape, with a request id.
 */
export function createApp(given: AppDeps): H3 {
  const deps = { ...given, shared: sharedRoom(given) };
  const accessLog = given.logsRequests ? { log: given.log, proxies: given.gate.proxies } : null;
  // Silent, because h3 prints a stack for every client that disconnects; `onError` logs what is worth it.
  const app = new H3({
    ...requestHooks({ ...deps, accessLog }),
    silent: true,
    onError: (error, event) => answerError(error, { deps, event, ...newReply(event, deps) }),
  });
  for (const [path, methods] of Map.groupBy(deps.operations, ({ path }) => path)) {
    app.all(path, (event) => serve(methods, event, deps));
  }
  servePages(app, deps);
  serveInbox(app, deps);
  return app;
}

interface ServingDeps extends AppDeps {
  readonly shared: SharedRoom;
}

function sharedRoom({ limits, clock }: AppDeps): SharedRoom {
  const bytes = Math.max(ROOM_BYTES_MIN, LARGEST_BODIES * largestBody(limits));
  return {
    budget: new ByteBudget({ bytes, clock }),
    waits: new WaitPlaces(limits.connections),
  };
}

function newReply(event: H3Event, { ids, clock, gate, headers: own }: AppDeps): Reply {
  const headers = strictTransport(nodeRequest(event), gate.proxies);
  return {
    requestId: ids.next(clock.now()),
    isHead: event.req.method === "HEAD",
    headers: own === undefined ? headers : { ...headers, ...own },
  };
}

async function serve(
  methods: readonly Operation[],
  event: H3Event,
  deps: ServingDeps,
): Promise<Response> {
  const reply = newReply(event, deps);
  try {
    const operation = findOperation(methods, event);
    return toResponse(await callOperation(operation, { event, deps, reply }), reply);
  } catch (error) {
    return answerError(error, { deps, event, ...reply });
  }
}

function findOperation(methods: readonly Operation[], { req: { method } }: H3Event): Operation {
  const wanted = method === "HEAD" ? "GET" : method;
  const operation = methods.find((each) => each.method === wanted);
  if (operation !== undefined) return operation;
  const allowed = methods.flatMap((each) =>
    each.method === "GET" ? ["GET", "HEAD"] : [each.method],
  );
  throw new StatusError(40500, { headers: { allow: allowed.join(", ") } });
}

interface Serving {
  readonly event: H3Event;
  readonly deps: ServingDeps;
  readonly reply: Reply;
}

// http-api.md prescribes the order of these checks.
async function callOperation(
  operation: Operation,
  { event, deps, reply }: Serving,
): Promise<WholeAnswer> {
  const request = nodeRequest(event);
  // Set first, so that refusals carry it too.
  if (isKeptByNobody(operation)) reply.headers = { ...reply.headers, ...NO_STORE };
  checkHost(request);
  const { gate, clock } = deps;
  const isHealthCheck = operation.isHealthCheck === true;
  const isReserve = connectionOf(request)?.isReserve === true;
  if (isReserve) {
    reply.headers = { ...reply.headers, connection: "close" };
    // Before any look-up: without a cookie it cannot be the operator's.
    if (!isHealthCheck && headerValues(request, "cookie").length === 0) throw noPlace();
  }
  // Health checks come from machines that know nothing of certificates, and carry no key.
  if (isForHttpsAlone(operation)) requireHttps(request, gate);
  // Health checks need not come by way of a proxy.
  if (!isHealthCheck) gate.proxyWatch.look(request, gate.proxies);
  const came = clock.monotonic();
  const admitted = await admit(request, operation, { deps: gate, now: clock.now() });
  const { who, holder, isOperator, admitAgain } = admitted;
  reply.headers = { ...reply.headers, ...admitted.headers };
  if (isReserve && !isOperator && !isHealthCheck) throw noPlace();
  const query = parseQuery(queryOf(event), operation.takes.query ?? NOTHING);
  const room = openRoom(event, { request, holder, deps });
  const body = await readBody(request, { takes: operation.takes, limits: deps.limits, room });
  // Otherwise a revoked key would count for as long as its client draws out a body.
  if (clock.monotonic() - came > UNCHECKED_MS_MAX) await admitAgain();
  if (operation.method === "GET" && !isHealthCheck) await room.forAnswer();
  const call: Call = {
    params: event.context.params ?? NOTHING,
    // Taken after the body, which may take its time: a task is as old as its acceptance.
    now: clock.now(),
    isHead: reply.isHead,
    headers: (name) => headerValues(request, name),
    clientKey: (prefixBits) => clientKey(request, gate, prefixBits),
    arrival: () => arrivalOf(request, gate.proxies),
    gone: () => closeSignal(request),
    room,
    admitAgain,
    audit: (action, subject, details = null) => {
      const actor = { ...admitted.actor, address: clientKey(request, gate) };
      return { at: clock.now(), actor, action, subject, details };
    },
  };
  const given = await operation.handle({ ...call, ...who, query, ...body });
  const whole = "fields" in given ? toAnswer(given) : given;
  const isRead = operation.method === "GET" && isFromPage(request);
  const answer = isRead ? await pageAnswer(call, whole) : whole;
  room.answered(answer, call.isHead);
  return answer;
}

function noPlace(): StatusError {
  const detail =
    "All connections (limits.connections) are in use: this reserved one is only for health checks and the operator.";
  return new StatusError(50300, { detail, headers: { "retry-after": "5" } });
}

function toAnswer({ fields, headers }: FieldsAnswer<AnyFields>): WholeAnswer {
  const answer = { status: 200, text: envelope(fields) };
  return headers === undefined ? answer : { ...answer, headers };
}

function openRoom(
  event: H3Event,
  { request, holder, deps }: { request: IncomingMessage; holder: string; deps: ServingDeps },
): RequestRoom {
  const room = new RequestRoom(deps.shared, request, { holder, gone: () => closeSignal(request) });
  const response = event.runtime?.node?.res;
  if (response === undefined || response.closed) room.end();
  else whenAnswered(request, response, () => room.end());
  return room;
}

function servePages(app: H3, deps: AppDeps): void {
  const { gate, operations, pages } = deps;
  if (pages === undefined) return;
  const { browsers } = gate;
  const toRequest = (event: H3Event) => ({
    request: nodeRequest(event),
    method: event.req.method,
    pathname: event.url.pathname,
    reply: newReply(event, deps),
  });
  const hasDashboard = pages !== null && browsers !== null;
  const first = hasDashboard ? DASHBOARD_PATH : REFERENCE_PATH;
  const reference = referenceFiles(() => inTurns(openApiDocument(operations, version)));
  app.all("/", (event) => {
    const page = toRequest(event);
    return serveRoot(page, first) ?? toResponse(toErrorAnswer(new StatusError(40400)), page.reply);
  });
  for (const path of [REFERENCE_PATH, `${REFERENCE_PATH}/**`]) {
    app.all(path, (event) => serveReference(toRequest(event), reference));
  }
  // Without a dashboard its paths are unknown like others.
  if (!hasDashboard) return;
  for (const path of ["/dashboard", `${DASHBOARD_PATH}**`]) {
    app.all(path, (event) => servePage(toRequest(event), { files: pages, gate, browsers }));
  }
}

function serveInbox(app: H3, deps: ServingDeps): void {
  const { inbox, gate } = deps;
  if (inbox === undefined) return;
  const serveMessage = async (event: H3Event): Promise<Response> => {
    const reply = newReply(event, deps);
    const request = nodeRequest(event);
    try {
      checkHost(request);
      if (gate.browsers !== null) guardDeveloper(request, gate.browsers);
      const room = openRoom(event, { request, holder: "inbox", deps });
      const box = event.context.params?.["box"] ?? "";
      const call = { box, request, gate, room, gone: closeSignal(request) };
      return toResponse(await answerMessage(call, inbox), reply);
    } catch (error) {
      return answerError(error, { deps, event, ...reply });
    }
  };
  app.all("/inbox/:box", serveMessage);
  app.all("/inbox/:box/**", serveMessage);
}

const NO_PARAMETERS = new URLSearchParams();

// Most requests have none, and asking h3 for it parses the URL.
function queryOf({ url }: H3Event): URLSearchParams {
  if (url.search === "") return NO_PARAMETERS;
  checkEscapes(url.search);
  return url.searchParams;
}

// One for a connection, however many requests come over it: listeners for each would stay as long as it does.
const closeSignals = new WeakMap<IncomingMessage["socket"], AbortSignal>();

function closeSignal({ socket }: IncomingMessage): AbortSignal {
  const known = closeSignals.get(socket);
  if (known !== undefined) return known;
  const closed = new AbortController();
  closeSignals.set(socket, closed.signal);
  if (socket.destroyed) closed.abort();
  else socket.once("close", () => closed.abort());
  return closed.signal;
}

const NOTHING = {};

async function readBody(
  request: IncomingMessage,
  { takes, limits, room }: Pick<AppDeps, "limits"> & { takes: OperationInputs; room: BodyRoom },
): Promise<GivenBody> {
  if (!takesBody(takes)) return NOTHING;
  const { body, isBodyOptional: isOptional = false } = takes;
  const bytesMax = bodyBytesMax(takes, limits);
  const bytes = await readBodyBytes(request, { bytesMax, isOptional, room });
  if (isParsedByOperation(takes) && bytes !== null) return { bodyBytes: bytes };
  if (body === undefined) throw new Error("no operation reads this body");
  return { body: parseFields(bytes === null ? {} : parseBody(bytes, PLAIN_READING), body) };
}

// RFC 9112 §3.2. Nothing here reads the host, but a proxy in front may route by it, and by the wrong one when there are
// two.
function checkHost(request: IncomingMessage): void {
  const { length } = headerValues(request, "host");
  if (length === 1 || (length === 0 && request.httpVersion === "1.0")) return;
  const detail = "Send one Host header.";
  throw new StatusError(40000, { detail });
}

function nodeRequest(event: H3Event): IncomingMessage {
  const request = event.runtime?.node?.req;
  if (request === undefined) throw new Error("the app is served by Node's HTTP server only");
  // srvx types it for HTTP/1 and HTTP/2; server.ts opens an HTTP/1 server.
  return request as IncomingMessage;
}

interface ErrorContext extends Reply {
  readonly deps: AppDeps;
  readonly event: H3Event;
}

function answerError(error: unknown, { deps, event, ...reply }: ErrorContext): Response {
  if (error instanceof ClientGoneError) return toResponse({ status: 400, text: "" }, reply);
  const known = toStatusError(error) ?? toRoutingError(error);
  if (known !== null) return toResponse(toErrorAnswer(known), reply);
  // Only the pathname: the query may hold anything.
  const { requestId } = reply;
  const facts = { err: error, requestId, method: event.req.method, path: event.url.pathname };
  deps.log.error(facts, "a request ended in an unexpected error");
  return toResponse(toErrorAnswer(new StatusError(50000)), reply);
}

// The refusals of h3 itself, before any of our code runs: an unknown path, or one that cannot be decoded.
function toRoutingError(error: unknown): StatusError | null {
  if (!HTTPError.isError(error) || error.unhandled === true) return null;
  if (error.status === 404) return new StatusError(40400);
  if (error.status < 400 || error.status >= 500) return null;
  const detail = "A percent escape in the path is malformed, or not UTF-8.";
  return new StatusError(40000, { detail });
}

interface MetricsAppDeps
  extends
    Pick<AppDeps, "gate" | "ids" | "log" | "limits" | "headers">,
    Pick<OperationDeps, "metricsText"> {
  /** Of the listener. */
  readonly host: string;
  readonly publicUrl: string | null;
}

/**
 * The app of `metrics.listen`: `/metrics` alone, without credentials. It counts no requests, and scrapes are served
 * when connections run out.
 */
export function createMetricsApp({ host, publicUrl, ...deps }: MetricsAppDeps): H3 {
  const operation = { ...metrics(deps), access: "network", isHealthCheck: true } as const;
  return createApp({
    ...deps,
    clock: systemClock,
    operations: [operation],
    gate: {
      ...deps.gate,
      browsers: toBrowserPolicy({ host, publicUrl }),
      proxies: { trusted: [], servesTls: false, insecureHttp: true },
    },
  });
}

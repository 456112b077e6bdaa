import type { IncomingMessage } from "node:http";

import type { H3Config, H3Event } from "h3";

import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import { whenAnswered } from "./admission/connections.ts";
import { type ProxyPolicy, clientFacts } from "./guard/client.ts";
import type { Operation } from "./operation.ts";

export interface AccessLogDeps {
  readonly clock: Clock;
  readonly log: Pick<Logger, "info">;
  readonly proxies: ProxyPolicy;
  readonly operations: readonly Operation[];
}

type Hooks = Pick<H3Config, "onRequest" | "onResponse">;

// The callers that the gate has found, by request; forgotten with the request.
const callers = new WeakMap<IncomingMessage, string>();

/** Notes who sent a request: the id of a key, or whatever names a credential and is no secret. */
export function noteCaller(request: IncomingMessage, credential: string): void {
  callers.set(request, credential);
}

/**
 * Hooks that log a line for each request once it is answered, or its client is gone. The path is that of the operation,
 * without its parameters, the query and anything else that the client chose.
 */
export function accessLogHooks(deps: AccessLogDeps): Hooks {
  const { clock, log, proxies } = deps;
  const paths = new Set(deps.operations.map(({ path }) => path));
  const began = new WeakMap<H3Event, number>();
  return {
    onRequest(event) {
      began.set(event, clock.monotonic());
    },
    onResponse({ status }, event) {
      const { req: request, res: response } = event.runtime?.node ?? {};
      if (request === undefined || response === undefined) return;
      const { socket } = request as IncomingMessage;
      const since = began.get(event) ?? clock.monotonic();
      const sentBefore = socket.bytesWritten;
      const route = event.context.matchedRoute?.route;
      const facts = {
        method: METHODS.has(event.req.method) ? event.req.method : "other",
        path: route !== undefined && paths.has(route) ? route : "other",
        http_status: status,
        address: clientFacts(request as IncomingMessage, proxies).address,
        caller: callers.get(request as IncomingMessage) ?? null,
      };
      const tell = (): void => {
        const ms = Math.round(clock.monotonic() - since);
        // With its headers. Requests of one connection are answered one after the other.
        const bytes = socket.bytesWritten - sentBefore;
        const isWhole = response.writableFinished;
        log.info({ ...facts, ms, bytes, whole: isWhole }, "request");
      };
      // Of a client that has gone nothing more is heard.
      if (response.closed) tell();
      else whenAnswered(request as IncomingMessage, response, tell);
    },
  };
}

// A method may be any word.
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);

/** Hooks that do what all of these do, in their order; none of them is waited for. */
export function joinedHooks(all: readonly Hooks[]): Hooks {
  const [first = {}, ...others] = all.filter(({ onResponse }) => onResponse !== undefined);
  if (others.length === 0) return first;
  return {
    onRequest(event) {
      for (const { onRequest } of [first, ...others]) void onRequest?.(event);
    },
    onResponse(response, event) {
      for (const { onResponse } of [first, ...others]) void onResponse?.(response, event);
    },
  };
}

export interface ObservedRequestsDeps {
  readonly observer?: Pick<Observer, "request"> | undefined;
  readonly clock: Clock;
  readonly operations: readonly Operation[];
}

/** Hooks that tell the observer of every request that the app answers; none where it does not listen. */
export function requestHooks({
  observer,
  clock,
  operations,
}: ObservedRequestsDeps): Pick<H3Config, "onRequest" | "onResponse"> {
  const tell = observer?.request;
  if (tell === undefined) return {};
  // A method that no operation has may be any word.
  const known = new Set(operations.map(({ method, path }) => `${method} ${path}`));
  const began = new WeakMap<H3Event, number>();
  return {
    onRequest(event) {
      began.set(event, clock.monotonic());
    },
    onResponse(response, event) {
      const now = clock.monotonic();
      const operation = operationOf(event);
      const isGone = event.runtime?.node?.req.socket.destroyed === true;
      tell({
        operation: known.has(operation) ? operation : null,
        status: isGone ? null : response.status,
        // A URL that h3 cannot read is refused before it has begun.
        ms: now - (began.get(event) ?? now),
      });
    },
  };
}

function operationOf({ req: { method }, context: { matchedRoute } }: H3Event): string {
  return `${method === "HEAD" ? "GET" : method} ${matchedRoute?.route}`;
}

import type { IncomingMessage } from "node:http";

import type { H3Config, H3Event } from "h3";

import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import { whenAnswered } from "./admission/connections.ts";
import { type ProxyPolicy, clientFacts } from "./guard/client.ts";
import type { Operation } from "./operation.ts";

export interface RequestHooksDeps {
  readonly clock: Clock;
  readonly operations: readonly Operation[];
  readonly observer?: Pick<Observer, "request"> | undefined;
  /** Logs each request; null, as without it, logs none. */
  readonly accessLog?: AccessLog | null;
}

interface AccessLog {
  readonly log: Pick<Logger, "info">;
  readonly proxies: ProxyPolicy;
}

// The callers that the gate has found, by request; forgotten with the request.
const callers = new WeakMap<IncomingMessage, string>();

/** Notes who sent a request: the id of a key, or whatever names a credential and is no secret. */
export function noteCaller(request: IncomingMessage, credential: string): void {
  callers.set(request, credential);
}

/**
 * Hooks that notify the observer of each response, and log a line for each request once its response is sent, or its
 * client is gone. None if neither is wanted.
 */
export function requestHooks({
  clock,
  operations,
  observer,
  accessLog = null,
}: RequestHooksDeps): Pick<H3Config, "onRequest" | "onResponse"> {
  const notify = observer?.request;
  if (notify === undefined && accessLog === null) return {};
  // A method that no operation has may be any word.
  const known = new Set(operations.map(({ method, path }) => `${method} ${path}`));
  const paths = new Set(operations.map(({ path }) => path));
  const began = new WeakMap<H3Event, number>();
  return {
    onRequest(event) {
      began.set(event, clock.monotonic());
    },
    onResponse({ status }, event) {
      const now = clock.monotonic();
      // A URL that h3 cannot read is refused before it has begun.
      const since = began.get(event) ?? now;
      if (notify !== undefined) {
        const operation = operationOf(event);
        const isGone = event.runtime?.node?.req.socket.destroyed === true;
        notify({
          operation: known.has(operation) ? operation : null,
          status: isGone ? null : status,
          ms: now - since,
        });
      }
      if (accessLog === null) return;
      const { req: request, res: response } = event.runtime?.node ?? {};
      if (request === undefined || response === undefined) return;
      const { socket } = request as IncomingMessage;
      const sentBefore = socket.bytesWritten;
      const route = event.context.matchedRoute?.route;
      // The path is the operation's, without its parameters, the query and anything else that the client chose.
      const facts = {
        method: METHODS.has(event.req.method) ? event.req.method : "other",
        path: route !== undefined && paths.has(route) ? route : "other",
        http_status: status,
        address: clientFacts(request as IncomingMessage, accessLog.proxies).address,
        caller: callers.get(request as IncomingMessage) ?? null,
      };
      const write = (): void => {
        const ms = Math.round(clock.monotonic() - since);
        // With its headers. Requests of one connection are answered one after the other.
        const bytes = socket.bytesWritten - sentBefore;
        accessLog.log.info({ ...facts, ms, bytes, whole: response.writableFinished }, "request");
      };
      // The response of a client that has gone emits nothing more.
      if (response.closed) write();
      else whenAnswered(request as IncomingMessage, response, write);
    },
  };
}

// A method may be any word.
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);

function operationOf({ req: { method }, context: { matchedRoute } }: H3Event): string {
  return `${method === "HEAD" ? "GET" : method} ${matchedRoute?.route}`;
}

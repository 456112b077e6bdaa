import type { IncomingMessage } from "node:http";

import type { H3Config, H3Event } from "h3";

import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import { whenAnswered } from "./admission/connections.ts";
import { type ProxyPolicy, clientFacts } from "./guard/client.ts";
import type { Operation } from "./operation.ts";

interface RequestHooksDeps {
  readonly clock: Clock;
  readonly operations: readonly Operation[];
  readonly observer?: Pick<Observer, "request"> | undefined;
  /** Null logs no request. */
  readonly accessLog?: { readonly log: Pick<Logger, "info">; readonly proxies: ProxyPolicy } | null;
}

// The callers that the gate has found, by request; forgotten with the request.
const callers = new WeakMap<IncomingMessage, string>();

/** Notes the sender of a request: the id of a key, or another name of a credential that is not secret. */
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
      const { method } = event.req;
      const route = event.context.matchedRoute?.route;
      const { req, res: response } = event.runtime?.node ?? {};
      if (notify !== undefined) {
        const operation = `${method === "HEAD" ? "GET" : method} ${route}`;
        notify({
          operation: known.has(operation) ? operation : null,
          status: req?.socket.destroyed === true ? null : status,
          ms: now - since,
        });
      }
      if (accessLog === null || req === undefined || response === undefined) return;
      const request = req as IncomingMessage;
      const { socket } = request;
      const sentBefore = socket.bytesWritten;
      // The path is the operation's, without its parameters, the query and anything else that the client chose.
      const facts = {
        method: METHODS.has(method) ? method : "other",
        path: route !== undefined && paths.has(route) ? route : "other",
        http_status: status,
        address: clientFacts(request, accessLog.proxies).address,
        caller: callers.get(request) ?? null,
      };
      const write = (): void => {
        const ms = Math.round(clock.monotonic() - since);
        // With its headers. Requests of one connection are answered one after the other.
        const bytes = socket.bytesWritten - sentBefore;
        accessLog.log.info({ ...facts, ms, bytes, whole: response.writableFinished }, "request");
      };
      // The response of a client that has gone emits nothing more.
      if (response.closed) write();
      else whenAnswered(request, response, write);
    },
  };
}

// A method may be any word.
const METHODS: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);

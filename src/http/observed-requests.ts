import type { H3Config, H3Event } from "h3";

import type { Clock } from "../domain/clock/clock.ts";
import type { Observer } from "../domain/observer.ts";
import type { Operation } from "./operation.ts";

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

import type { IncomingMessage, RequestListener } from "node:http";

import { addressKey } from "../guard/client-address.ts";
import { EVENT_LOOP, type Arrivals, type EventLoop } from "./arrivals.ts";
import { connectionOf } from "./client-connection.ts";
import { TurnQueue } from "./turn-queue.ts";

/**
 * How long requests are begun in one turn of the event loop. A request takes a tenth of a millisecond, so a few busy
 * clients never wait. Many requests sent at once wait here, so that nobody else waits for them.
 */
const TURN_MS = 5;

// Each request begins in a call of its own, so that the work which follows it at once counts too.
const CALLS_MAX = 64;

export interface TurnOptions {
  readonly arrivals: Arrivals;
  readonly loop?: EventLoop;
}

/**
 * Wraps a listener: it gets the requests that arrive in one turn of the event loop for {@link TURN_MS}, and the rest
 * in the following turns, in turn with the connections that come in. In between the loop goes round, and everything
 * else that is due has its time. The requests that wait take turns: health checks and all others, within each the
 * addresses, within an address the credentials. A request that comes alone does not wait.
 */
export function shareTurns(
  listener: RequestListener,
  { arrivals, loop = EVENT_LOOP }: TurnOptions,
): RequestListener {
  const queue = new TurnQueue<Parameters<RequestListener>>();
  let endsAt: number | null = null;
  let isPlanned = false;

  function plan(): void {
    if (isPlanned) return;
    isPlanned = true;
    loop.goRound(nextTurn);
  }

  function hasTime(): boolean {
    const now = loop.now();
    endsAt ??= now + TURN_MS;
    plan();
    return now < endsAt;
  }

  function nextTurn(): void {
    isPlanned = false;
    endsAt = null;
    if (queue.size === 0) return;
    if (arrivals.haveTheirTurn()) {
      plan();
      return;
    }
    for (let left = Math.min(queue.size, CALLS_MAX); left > 0; left--) loop.goRound(beginNext);
  }

  function beginNext(): void {
    if (queue.size === 0 || !hasTime()) return;
    const next = queue.shift();
    // A client that has gone meanwhile needs no answer.
    if (next !== undefined && !next[0].socket.destroyed) listener(...next);
  }

  return (request, response) => {
    if (queue.size === 0 && !arrivals.haveTheirTurn() && hasTime()) {
      listener(request, response);
      return;
    }
    queue.push([request, response], turnKeys(request));
    plan();
  };
}

const HEALTH_CHECK = /^\/(?:livez|readyz)(?:\?|$)/;

function turnKeys(request: IncomingMessage): readonly string[] {
  const { url = "", headers, socket } = request;
  const kind = HEALTH_CHECK.test(url) ? "health" : "other";
  const credential = headers.authorization ?? headers.cookie ?? "";
  const address = connectionOf(request)?.address ?? addressKey(socket.remoteAddress ?? "");
  return [kind, address, credential];
}

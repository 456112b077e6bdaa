import type { IncomingMessage, RequestListener } from "node:http";

import { addressKey } from "./client-address.ts";
import { connectionOf } from "./client-connection.ts";
import { TurnQueue } from "./turn-queue.ts";

/** The event loop, as it is used here. */
export interface EventLoop {
  /** In milliseconds; only differences mean something. */
  now(): number;
  /** Calls back when the loop goes round; what is asked for in such a call, the next time. */
  goRound(callback: () => void): void;
}

const EVENT_LOOP: EventLoop = {
  now: () => performance.now(),
  goRound: (callback) => void setImmediate(callback),
};

/**
 * How long requests are begun in one turn of the event loop. A request takes a tenth of a millisecond, so a few busy
 * clients never wait; what many send at once waits here rather than everybody else for it.
 */
const TURN_MS = 5;

// Each is begun by a call of its own, so that what follows at once from the one before counts too.
const CALLS_MAX = 64;

/**
 * The listener, which is given what arrives in one turn of the event loop for {@link TURN_MS}, and what is left in the
 * turns that follow. In between the loop goes round: whatever else is due has its time. Who waits takes turns: health
 * checks and all other requests, among either the addresses, among those of one address the credentials. A request that
 * comes alone does not wait.
 */
export function shareTurns(listener: RequestListener, loop = EVENT_LOOP): RequestListener {
  const queue = new TurnQueue<Parameters<RequestListener>>();
  let endsAt: number | null = null;

  function hasTime(): boolean {
    const now = loop.now();
    if (endsAt === null) {
      endsAt = now + TURN_MS;
      loop.goRound(nextTurn);
    }
    return now < endsAt;
  }

  function nextTurn(): void {
    endsAt = null;
    for (let left = Math.min(queue.size, CALLS_MAX); left > 0; left--) loop.goRound(beginNext);
  }

  function beginNext(): void {
    if (queue.size === 0 || !hasTime()) return;
    const next = queue.shift();
    // Whoever has gone meanwhile needs no answer.
    if (next !== undefined && !next[0].socket.destroyed) listener(...next);
  }

  return (request, response) => {
    if (queue.size === 0 && hasTime()) listener(request, response);
    else queue.push([request, response], turnKeys(request));
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

import type { Server } from "node:http";

import { systemClock } from "../../domain/clock/clock.ts";
import type { ClientConnection, FollowOptions, Socket } from "./client-connection.ts";

export interface Sending {
  /** Bytes that the kernel took. */
  readonly taken: number;
  /** Bytes that the kernel has not taken yet. */
  readonly unsent: number;
}

/** A client that takes less of an answer counts as one that takes nothing. */
export const BYTES_PER_SECOND_MIN = 1024;

// Twice a second, so that a client is cut off within a second of its time.
const LOOK_INTERVAL_MS = 500;
const LOOKS_PER_TIMEOUT_MIN = 4;

interface Look {
  taken: number;
  /** When the kernel was first seen to have taken something new. */
  movedAt: number;
  /** The beginning of the time for which the least pace is asked. */
  readonly from: { at: number; taken: number };
}

/**
 * Finds the clients that do not read their answers: for the length of the send timeout nothing moves, or less than
 * {@link BYTES_PER_SECOND_MIN}. To be asked about each client again and again.
 */
export class SendPace<Client extends object> {
  readonly #timeoutMs: number;
  readonly #looks = new WeakMap<Client, Look>();

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  isTooSlow(client: Client, { taken, unsent }: Sending, now: number): boolean {
    const look = this.#looks.get(client);
    if (unsent === 0) {
      if (look !== undefined) this.#looks.delete(client);
      return false;
    }
    if (look === undefined) {
      this.#looks.set(client, { taken, movedAt: now, from: { at: now, taken } });
      return false;
    }
    if (taken !== look.taken) Object.assign(look, { taken, movedAt: now });
    if (now - look.movedAt >= this.#timeoutMs) return true;
    const { from } = look;
    if (now - from.at < this.#timeoutMs) return false;
    const wanted = ((now - from.at) / 1000) * BYTES_PER_SECOND_MIN;
    if (taken - from.taken < wanted) return true;
    Object.assign(from, { at: now, taken });
    return false;
  }
}

/**
 * How far a TCP connection has sent. Node reports a write only when all of it is done, so this asks the socket's
 * handle, as Node does itself for its timeouts. A socket without a handle sends nothing.
 */
export function sendingOf(socket: Socket): Sending {
  const handle: unknown = Reflect.get(socket, "_handle");
  const unsent = numberOf(handle, "writeQueueSize");
  return { taken: numberOf(handle, "bytesWritten") - unsent, unsent };
}

function numberOf(handle: unknown, name: string): number {
  if (typeof handle !== "object" || handle === null) return 0;
  const value: unknown = Reflect.get(handle, name);
  return typeof value === "number" ? value : 0;
}

/**
 * From now on, cuts off the clients of a server that are too slow. It goes by the machine's clock, because so does
 * the network; no timer runs while there is no connection.
 */
export function cutOffSlow(
  server: Server,
  { places, sendTimeoutMs }: Pick<FollowOptions, "places"> & { sendTimeoutMs: number },
): void {
  const pace = new SendPace<ClientConnection>(sendTimeoutMs);
  const intervalMs = Math.min(LOOK_INTERVAL_MS, sendTimeoutMs / LOOKS_PER_TIMEOUT_MIN);
  let isWatching = false;

  function look(): void {
    const now = systemClock.monotonic();
    for (const connection of [...places.all()]) {
      if (pace.isTooSlow(connection, sendingOf(connection.socket), now)) connection.cutOff();
    }
    isWatching = places.size > 0;
    if (isWatching) systemClock.setTimer(intervalMs, look);
  }

  server.on("connection", () => {
    if (isWatching) return;
    isWatching = true;
    systemClock.setTimer(intervalMs, look);
  });
}

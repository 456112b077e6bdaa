import { type LookupFunction, type Socket, connect as connectSocket, isIP } from "node:net";
import { type SecureContext, type TLSSocket, connect as connectTlsSocket } from "node:tls";

import { parseAddress } from "../domain/address/address.ts";
import type { Clock, Timer } from "../domain/clock/clock.ts";
import type { SendRequest } from "../domain/webhook/webhook-request.ts";
import { connectFailure, tlsFailure } from "./failure.ts";

export interface Connection {
  readonly socket: Socket;
  /** The address at the other end. */
  readonly address: string;
  readonly key: string;
}

/**
 * The things that a connection must share with an attempt to carry it: account, scheme, host, port and address.
 * - The account: a receiver can send a late response, which counts for the next request on the connection.
 * - The host: the certificate was checked for that name.
 * - The address: an attempt may use only addresses that it vetted itself.
 */
export function connectionKey({ target, accountId }: SendRequest, address: string): string {
  return `${accountId ?? "operator"} ${target.scheme} ${target.host} ${target.port} ${address}`;
}

// Receivers that say nothing keep idle connections for 5 s (Node) to minutes.
const IDLE_MS_MAX = 10_000;
// A receiver counts its limit from its answer, a round trip earlier than we do.
const HINT_MARGIN_MS = 1000;
const SWEEP_MS = 2000;
// Enough for every attempt in flight at full load, and few against the usual 1,024 file descriptors.
const IDLE_COUNT_MAX = 256;

/** A place in the pool, in a list ordered by when the connections became idle. */
interface Idle {
  readonly connection: Connection;
  readonly expiresAt: number;
  readonly drop: () => void;
  older: Idle | null;
  newer: Idle | null;
}

/**
 * Keeps connections between two requests, 256 in all (the one idle longest goes) and 10 s each, so that 100,000 hosts
 * do not pile up. Drops a connection that is closed, or that the other side writes to unasked: such bytes would be
 * taken for the answer to the next request.
 */
export class ConnectionPool {
  readonly #clock: Clock;
  readonly #byKey = new Map<string, Idle[]>();
  // A hand-made list instead of a Set: a Set's outgrown tables keep alive what was in them. At 10,000 requests/s the
  // garbage collector carried 15 MB of finished attempts along.
  #oldest: Idle | null = null;
  #newest: Idle | null = null;
  #size = 0;
  #sweep: Timer | null = null;
  #isClosed = false;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  /** Hands out the connection under `key` that was used last, if one is still good. */
  take(key: string): Connection | null {
    for (;;) {
      const idle = this.#byKey.get(key)?.at(-1);
      if (idle === undefined) return null;
      this.#forget(idle);
      const { socket } = idle.connection;
      const isGood = socket.writable && socket.readable && idle.expiresAt > this.#clock.monotonic();
      if (isGood) return idle.connection;
      socket.destroy();
    }
  }

  /** Keeps a connection whose last answer ended, for `hintMs` where its receiver gave that limit. */
  put(connection: Connection, { hintMs }: { readonly hintMs: number | null }): void {
    const idleMs = hintMs === null ? IDLE_MS_MAX : Math.min(hintMs - HINT_MARGIN_MS, IDLE_MS_MAX);
    if (this.#isClosed || idleMs <= 0) {
      connection.socket.destroy();
      return;
    }
    const drop = (): void => this.#drop(idle);
    const expiresAt = this.#clock.monotonic() + idleMs;
    const idle: Idle = { connection, expiresAt, drop, older: null, newer: null };
    connection.socket.on("data", drop);
    connection.socket.on("close", drop);
    this.#remember(idle);
    if (this.#size > IDLE_COUNT_MAX && this.#oldest !== null) this.#drop(this.#oldest);
    this.#sweep ??= this.#sweepLater();
  }

  /** Closes every idle connection, and from now on each connection that is put. */
  close(): void {
    this.#isClosed = true;
    this.#sweep?.cancel();
    this.#sweep = null;
    while (this.#oldest !== null) this.#drop(this.#oldest);
  }

  #dropExpired(): void {
    const now = this.#clock.monotonic();
    for (let idle = this.#oldest, next = idle; idle !== null; idle = next) {
      next = idle.newer;
      if (idle.expiresAt <= now) this.#drop(idle);
    }
    const isEmpty = this.#oldest === null;
    this.#sweep = isEmpty ? null : this.#sweepLater();
  }

  #sweepLater(): Timer {
    return this.#clock.setTimer(SWEEP_MS, () => this.#dropExpired(), "tick");
  }

  #drop(idle: Idle): void {
    this.#forget(idle);
    idle.connection.socket.destroy();
  }

  #remember(idle: Idle): void {
    const { key } = idle.connection;
    const others = this.#byKey.get(key);
    if (others === undefined) this.#byKey.set(key, [idle]);
    else others.push(idle);
    idle.older = this.#newest;
    if (this.#newest === null) this.#oldest = idle;
    else this.#newest.newer = idle;
    this.#newest = idle;
    this.#size += 1;
  }

  #forget(idle: Idle): void {
    const { socket, key } = idle.connection;
    socket.off("data", idle.drop);
    socket.off("close", idle.drop);
    const others = this.#byKey.get(key);
    const index = others?.lastIndexOf(idle) ?? -1;
    if (others === undefined || index < 0) return;
    others.splice(index, 1);
    if (others.length === 0) this.#byKey.delete(key);
    this.#unlink(idle);
  }

  #unlink(idle: Idle): void {
    const { older, newer } = idle;
    if (older === null) this.#oldest = newer;
    else older.newer = newer;
    if (newer === null) this.#newest = older;
    else newer.older = older;
    idle.older = null;
    idle.newer = null;
    this.#size -= 1;
  }
}

/** The result of a step towards a connection. Nothing is left open unless it is `open`. */
export type Dialed<S extends Socket, Failure = string> =
  | { readonly kind: "open"; readonly socket: S }
  | { readonly kind: "failed"; readonly error: Failure }
  /** `signal` was aborted. */
  | { readonly kind: "cut" };

/** Opens a TCP connection to `address`, within `limitMs` if given. It fails for a name and for another other end. */
export async function dialTcp(
  { address, port }: { readonly address: string; readonly port: number },
  limits: { readonly signal: AbortSignal; readonly clock: Clock; readonly limitMs: number | null },
): Promise<Dialed<Socket>> {
  if (limits.signal.aborted) return { kind: "cut" };
  // Only the judged address may be dialled: node:net would resolve a name by itself, behind the judge's back.
  if (isIP(address) === 0) return { kind: "failed", error: "connection failed" };
  const socket = connectSocket({
    host: address,
    port,
    autoSelectFamily: false,
    noDelay: true,
    lookup: refuseLookup,
  });
  const giveUp = (): void => void socket.destroy(new DialTimeout());
  const timer = limits.limitMs === null ? null : limits.clock.setTimer(limits.limitMs, giveUp);
  const end = await whenEmitted(socket, { event: "connect", signal: limits.signal });
  timer?.cancel();
  if (end.kind === "failed") return { kind: "failed", error: connectFailure(end.error) };
  const misfit = end.kind === "open" ? otherEndFault(socket, address) : null;
  if (misfit === null) return end;
  socket.destroy();
  return { kind: "failed", error: misfit };
}

// Some addresses lead elsewhere (to Linux, 0.0.0.0 is 127.0.0.1): only the vetted one may be written to.
function otherEndFault({ remoteAddress }: Socket, vetted: string): string | null {
  // A connection that was reset immediately has no remote address any more.
  if (remoteAddress === undefined) return connectFailure(new ClosedEarly());
  const reached = parseAddress(remoteAddress)?.bytes.join(".");
  const isVetted = reached !== undefined && reached === parseAddress(vetted)?.bytes.join(".");
  return isVetted ? null : "connection reached another address";
}

/** Checks the certificate against `host`, also if NODE_TLS_REJECT_UNAUTHORIZED is 0. */
export async function dialTls(
  socket: Socket,
  options: {
    readonly host: string;
    readonly isAddress: boolean;
    readonly context: SecureContext;
    readonly signal: AbortSignal;
  },
): Promise<Dialed<TLSSocket>> {
  const secured = connectTlsSocket({
    socket,
    secureContext: options.context,
    // The certificate is checked against this name; SNI must not hold an address (RFC 6066 §3).
    host: options.host,
    ...(options.isAddress ? {} : { servername: options.host }),
    rejectUnauthorized: true,
    ALPNProtocols: ["http/1.1"],
  });
  const end = await whenEmitted(secured, { event: "secureConnect", signal: options.signal });
  if (end.kind === "failed") return { kind: "failed", error: tlsFailure(end.error) };
  if (end.kind === "open" && !secured.authorized) {
    secured.destroy();
    return { kind: "failed", error: "certificate is not trusted" };
  }
  return end;
}

class DialTimeout extends Error {
  readonly code = "ETIMEDOUT";
}

function whenEmitted<S extends Socket>(
  socket: S,
  { event, signal }: { readonly event: "connect" | "secureConnect"; readonly signal: AbortSignal },
): Promise<Dialed<S, unknown>> {
  return new Promise((resolve) => {
    const settle = (end: Dialed<S, unknown>): void => {
      signal.removeEventListener("abort", cut);
      socket.off("close", close);
      if (end.kind !== "open") socket.destroy();
      resolve(end);
    };
    const cut = (): void => settle({ kind: "cut" });
    const close = (): void => settle({ kind: "failed", error: new ClosedEarly() });
    // This listener stays for the socket's life: an idle connection that breaks must not crash the process.
    socket.on("error", (error) => settle({ kind: "failed", error }));
    socket.once("close", close);
    socket.once(event, () => settle({ kind: "open", socket }));
    signal.addEventListener("abort", cut, { once: true });
    if (signal.aborted) cut();
  });
}

class ClosedEarly extends Error {
  readonly code = "ECONNRESET";
}

const refuseLookup: LookupFunction = (hostname, _options, callback) => {
  callback(new Error(`${hostname} is not an address`), "");
};

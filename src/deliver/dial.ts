import { connect as connectSocket, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTlsSocket, type SecureContext, type TLSSocket } from "node:tls";

import { parseAddress } from "../domain/address/address.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { connectFailure, tlsFailure } from "./failure.ts";

/** The result of a step towards a connection. Nothing is left open unless it is `open`. */
export type Dialed<S extends Socket, Failure = string> =
  | { readonly kind: "open"; readonly socket: S }
  | { readonly kind: "failed"; readonly error: Failure }
  /** `signal` was aborted. */
  | { readonly kind: "cut" };

/**
 * Opens a TCP connection to `address`, within `limitMs` if that is a number. The address is never looked up: a name
 * fails, and so does a connection whose other end has another address.
 */
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

// The last check behind the judge: some addresses lead elsewhere (to Linux, 0.0.0.0 is 127.0.0.1), and only the
// vetted address may be written to.
function otherEndFault({ remoteAddress }: Socket, vetted: string): string | null {
  // A connection that was reset at once has no other end any more.
  if (remoteAddress === undefined) return connectFailure(new ClosedEarly());
  const reached = parseAddress(remoteAddress)?.bytes.join(".");
  const isVetted = reached !== undefined && reached === parseAddress(vetted)?.bytes.join(".");
  return isVetted ? null : "connection reached another address";
}

/**
 * Speaks TLS over an open connection and checks the certificate against `host`: always, whatever
 * NODE_TLS_REJECT_UNAUTHORIZED says.
 */
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
    // This listener stays for the socket's life: an idle connection that breaks is no reason to crash.
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
  callback(new Error(`${hostname} is no address`), "");
};

import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";

import { codeOf, messageOf } from "../../domain/error.ts";

/** An address to listen on. */
export interface ListenAddress {
  /** Address or name. */
  readonly host: string;
  /** 0 for any. */
  readonly port: number;
}

/** The address cannot be listened on: taken, not this machine's, or not permitted. The message says how to fix it. */
export class ListenError extends Error {
  override readonly name = "ListenError" as const;
}

/**
 * Listens for a moment, so that a start fails before it makes anything. Rejects with a {@link ListenError}. Another
 * process may still take the port before the daemon listens.
 */
export async function checkAddress(address: ListenAddress): Promise<void> {
  const server = createServer();
  try {
    const listening = once(server, "listening");
    server.listen(address.port, address.host);
    await listening;
  } catch (error) {
    throw toListenError(error, address);
  }
  const closed = once(server, "close");
  server.close();
  await closed;
}

/**
 * Calls back with the address of `metrics.listen`, a `HOST:PORT`. A {@link ListenError} of the callback becomes one that
 * names this setting.
 */
export async function atMetricsAddress<Value>(
  listen: string,
  open: (address: ListenAddress) => Promise<Value>,
): Promise<Value> {
  const at = listen.lastIndexOf(":");
  const host = listen.slice(0, at).replace(/^\[(.*)\]$/, "$1");
  try {
    return await open({ host, port: Number(listen.slice(at + 1)) });
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    const reason = messageOf(error.cause);
    const message = `cannot serve metrics on ${listen}: ${reason}; choose another address with --metrics`;
    throw new ListenError(message, { cause: error.cause });
  }
}

export function toListenError(error: unknown, { host, port }: ListenAddress): ListenError {
  const code = codeOf(error) ?? "";
  const { reason, remedy } = FAULTS[code] ?? { reason: null, remedy: () => ANOTHER };
  const why = reason === null ? messageOf(error) : `${reason} (${code})`;
  const message = `cannot listen on ${host} port ${port}: ${why}; ${remedy(port)}`;
  return new ListenError(message, { cause: error });
}

const ANOTHER = "choose another with --host and --port";

interface ListenFault {
  readonly reason: string;
  readonly remedy: (port: number) => string;
}

const NOT_PERMITTED: ListenFault = {
  reason: "this user may not use this port",
  remedy: (port) =>
    port > 0 && port < 1024
      ? "choose a port from 1024 on with --port, or give the program CAP_NET_BIND_SERVICE"
      : "choose another with --port",
};

const NO_ADDRESS: ListenFault = {
  reason: "the name has no address",
  remedy: () => "give an address with --host, such as 127.0.0.1",
};

const FAULTS: Readonly<Record<string, ListenFault>> = {
  EADDRINUSE: {
    reason: "another program uses this port",
    remedy: () => "stop it, or choose another port with --port; 0 picks a free one",
  },
  EADDRNOTAVAIL: {
    reason: "this machine does not have that address",
    remedy: () => "choose an address of this machine with --host",
  },
  EACCES: NOT_PERMITTED,
  EPERM: NOT_PERMITTED,
  ENOTFOUND: NO_ADDRESS,
  EAI_AGAIN: NO_ADDRESS,
};

/** A certificate chain and its private key, as PEM texts. */
export interface TlsPair {
  /** The server's own certificate first, then the chain to its root. */
  readonly cert: string;
  readonly key: string;
}

/**
 * Throws OpenSSL's reason why a pair cannot be served: the key belongs to another certificate, or one of them is too
 * weak or invalid.
 */
export function checkPair(pair: TlsPair): void {
  // This server never listens: it only loads the pair.
  createTlsServer(contextOptions(pair));
}

// Node takes an empty text as not given: it would serve a certificate with no key, or none. The version is set here
// because NODE_OPTIONS can lower Node's own minimum.
export function contextOptions({ cert, key }: TlsPair) {
  if (cert === "" || key === "") throw new Error("the certificate or its key is empty");
  return { cert, key, minVersion: "TLSv1.2" as const };
}

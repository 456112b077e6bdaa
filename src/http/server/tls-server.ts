import type { RequestListener } from "node:http";
import { createServer, type Server } from "node:https";

/** A certificate chain and its private key, as PEM texts. */
export interface TlsPair {
  /** The server's own certificate first, then the chain to its root. */
  readonly cert: string;
  readonly key: string;
}

/**
 * Makes an HTTPS server that does not listen yet: TLS 1.2 or newer, HTTP/1.1 only. A handshake that fails, or takes
 * longer than `handshakeTimeoutMs`, whatever trickles in, ends its connection without an answer. Throws where the
 * pair cannot be served.
 */
export function createTlsServer(
  listener: RequestListener,
  { pair, handshakeTimeoutMs }: { readonly pair: TlsPair; readonly handshakeTimeoutMs: number },
): Server {
  const server = createServer(
    {
      ...contextOptions(pair),
      ALPNProtocols: ["http/1.1"],
      handshakeTimeout: handshakeTimeoutMs,
    },
    listener,
  );
  // Node makes a clientError of a failed handshake. There is no key to send an answer with.
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return server;
}

/**
 * Throws OpenSSL's reason why a pair cannot be served: the key belongs to another certificate, or one of them is too
 * weak or invalid.
 */
export function checkPair(pair: TlsPair): void {
  // This server never listens: it only loads the pair.
  createServer(contextOptions(pair));
}

// Node takes an empty text as not given: it would serve a certificate with no key, or none. The version is set here
// because NODE_OPTIONS can lower Node's own minimum.
export function contextOptions({ cert, key }: TlsPair) {
  if (cert === "" || key === "") throw new Error("the certificate or its key is empty");
  return { cert, key, minVersion: "TLSv1.2" as const };
}

import { constants } from "node:crypto";
import tls, { type SecureContext } from "node:tls";

import { certificatesIn, readPem, type PemFile } from "./pem-file.ts";

// A server decides how much time TLS takes on this thread. A Diffie-Hellman group of 10,000 bits takes 0.9 s per
// handshake, endless renegotiations take 0.4 of a core per connection (Node 24.21).
const HARDENED = {
  minVersion: "TLSv1.2",
  ciphers: `${tls.DEFAULT_CIPHERS}:!kDHE`,
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
} as const;

let common: SecureContext | null = null;

/**
 * Returns the TLS context for a connection over HTTPS. It trusts the authorities of Node, of NODE_EXTRA_CA_CERTS, of the
 * system, and `own` (PEM). The first call reads the system's store, which takes some 80 ms and 5 MB. The context without
 * `own` is made once and shared.
 */
export function trustContext(own: readonly string[] = []): SecureContext {
  if (own.length > 0) return newContext(own);
  common ??= newContext(own);
  return common;
}

function newContext(own: readonly string[]): SecureContext {
  return tls.createSecureContext({ ...HARDENED, ...authorities(own) });
}

// Workers run in Node 20 too, which cannot list the system's authorities. There, Node's default counts.
function authorities(own: readonly string[]): { readonly ca?: string[] } {
  const { getCACertificates: list } = tls as Partial<typeof tls>;
  if (list === undefined) return own.length === 0 ? {} : { ca: [...tls.rootCertificates, ...own] };
  const all = [...list("default"), ...list("system"), ...own];
  // Most of the system's are Node's as well, and each takes 0.1 ms to parse.
  return { ca: [...new Set(all.map((pem) => pem.trimEnd()))] };
}

/** The authorities in a file, as PEM. Throws a TlsFileError if it cannot be read or holds none. */
export function readAuthorities(file: PemFile): readonly string[] {
  return certificatesIn(readPem(file), file).map(String);
}

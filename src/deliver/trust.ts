import { X509Certificate, constants } from "node:crypto";
import { readFileSync } from "node:fs";
import tls from "node:tls";
import type { SecureContext } from "node:tls";

import { codeOf } from "../domain/error.ts";

// A server decides how much time TLS takes on this thread. A Diffie-Hellman group of 10,000 bits takes 0.9 s per
// handshake, endless renegotiations take 0.4 of a core per connection (Node 24.21).
const HARDENED = {
  minVersion: "TLSv1.2",
  ciphers: `${tls.DEFAULT_CIPHERS}:!kDHE`,
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
} as const;

let common: SecureContext | null = null;

/** Trusts Node's, NODE_EXTRA_CA_CERTS', the system's and `own` authorities (PEM). The first call takes 80 ms, 5 MB. */
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

/** A certificate or a key cannot be used. The message names the file and the fix. */
export class TlsFileError extends Error {
  override readonly name = "TlsFileError" as const;
}

export interface PemFile {
  readonly path: string;
  /** The setting or the flag that names it. */
  readonly name: string;
}

export const PRIVATE_KEY = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----/;
const CERTIFICATE =
  /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]*-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g;

/** The text of a file. Throws a {@link TlsFileError} if it cannot be read. */
export function readPem(file: PemFile): string {
  try {
    // PEM is ASCII; the text around it may be anything.
    return readFileSync(file.path, "latin1");
  } catch (error) {
    const code = codeOf(error) ?? "";
    throw pemFault(file, READ_FAULTS[code] ?? `cannot be read: ${code}`, error);
  }
}

const READ_FAULTS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  EACCES: "cannot be read: this user has no permission",
  EISDIR: "is a folder, not a file",
};

/** Throws a {@link TlsFileError} if a certificate is damaged or missing; `exchanged` is added for a key. */
export function certificatesIn(
  text: string,
  file: PemFile,
  exchanged = "",
): readonly [X509Certificate, ...X509Certificate[]] {
  const [first, ...others] = text.match(CERTIFICATE) ?? [];
  if (first === undefined) {
    const what = PRIVATE_KEY.test(text)
      ? `holds a private key and no certificate${exchanged}`
      : "holds no certificate in PEM form (-----BEGIN CERTIFICATE-----); " +
        "openssl x509 -inform der -in FILE makes it of DER";
    throw pemFault(file, what);
  }
  const parse = (pem: string, index: number): X509Certificate => {
    try {
      return new X509Certificate(pem);
    } catch (error) {
      throw pemFault(file, `is damaged: its certificate ${index + 1} cannot be read`, error);
    }
  };
  return [parse(first, 0), ...others.map((pem, index) => parse(pem, index + 1))];
}

/** An error about a file; `what` completes the sentence. */
export function pemFault({ path, name }: PemFile, what: string, cause?: unknown): TlsFileError {
  return new TlsFileError(`${path} (${name}) ${what}`, { cause });
}

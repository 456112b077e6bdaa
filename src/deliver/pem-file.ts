import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

import { codeOf } from "../domain/error.ts";

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

/**
 * The certificates in the text of a file. Throws a {@link TlsFileError} if one is damaged or the text has none;
 * `exchanged` is added to its message if the text has a private key instead.
 */
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

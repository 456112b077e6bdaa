import { createPrivateKey, X509Certificate, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";

import type { TlsFiles } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import { codeOf, messageOf } from "../domain/message-of.ts";
import type { HttpServer } from "../http/server/server.ts";
import { checkPair, type TlsPair } from "../http/server/tls-server.ts";

/** The certificate or its key cannot be served. The message names the file and tells how to fix it. */
export class TlsFileError extends Error {
  override readonly name = "TlsFileError" as const;
}

/** A certificate with its key, checked, and the facts about it that may be logged. */
export interface TlsMaterial extends TlsPair {
  /** `CN=api.example.com`; empty for the many certificates that have only names. */
  readonly subject: string;
  /** `DNS:api.example.com, IP Address:192.0.2.1`. */
  readonly names: string;
  readonly validFrom: Date;
  readonly validTo: Date;
}

/**
 * Reads a certificate chain and its key. Throws a {@link TlsFileError} when a file is missing, cannot be read, is not
 * PEM or is encrypted, and when the two do not belong together. A certificate that is not valid yet, or no longer, is
 * returned all the same: see {@link warnOfValidity}.
 */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const [cert, key] = [readText(files, "cert"), readText(files, "key")];
  const chain = parseChain(cert, files);
  const privateKey = parseKey(key, files);
  const [own] = chain;
  if (!own.checkPrivateKey(privateKey)) throw mismatch(chain, { privateKey, files });
  try {
    checkPair({ cert, key });
  } catch (error) {
    const what = `cannot be served with ${files.key}: ${messageOf(error)}`;
    throw fault(["cert", files], what, error);
  }
  return {
    cert,
    key,
    subject: own.subject?.split("\n").join(", ") ?? "",
    names: own.subjectAltName ?? "",
    validFrom: own.validFromDate,
    validTo: own.validToDate,
  };
}

/** Logs that a certificate is not valid at this moment. Clients will refuse it, so somebody will look. */
export function warnOfValidity(
  material: TlsMaterial,
  { now, log }: { readonly now: number; readonly log: Logger },
): void {
  const { subject, names, validFrom, validTo } = material;
  const facts = { subject, names, validFrom: toText(validFrom), expires: toText(validTo) };
  for (const fault of validityFaults(material, now)) log.warn(facts, fault);
}

/** The reasons why clients refuse a certificate at this moment. */
export function validityFaults(
  { validFrom, validTo }: Pick<TlsMaterial, "validFrom" | "validTo">,
  now: number,
): readonly string[] {
  if (now > validTo.getTime()) {
    return [
      "the certificate has expired: clients refuse it; put a new one into its file and send SIGHUP",
    ];
  }
  if (now < validFrom.getTime()) {
    return ["the certificate is not valid yet: clients refuse it; is the clock right?"];
  }
  return [];
}

/**
 * Reads the files again and serves new connections with them. Answers the certificate; if that fails, logs so, answers
 * null, and serves the old one. Never throws.
 */
export function reloadTls(
  server: Pick<HttpServer, "reloadTls">,
  { tls, clock, log }: { readonly tls: TlsFiles; readonly clock: Clock; readonly log: Logger },
): TlsMaterial | null {
  try {
    const material = readTlsFiles(tls);
    server.reloadTls(material);
    const { subject, names, validTo } = material;
    const facts = { file: tls.cert, subject, names, expires: toText(validTo) };
    log.info(facts, "certificate reloaded; new connections are served with it");
    warnOfValidity(material, { now: clock.now(), log });
    return material;
  } catch (error) {
    log.error({ reason: messageOf(error) }, "certificate not reloaded; the old one stays in use");
    return null;
  }
}

type Part = keyof TlsFiles;

const SETTING_OF = { cert: "tls_cert", key: "tls_key" } as const satisfies Record<Part, string>;

function fault(
  [part, files]: readonly [Part, TlsFiles],
  what: string,
  cause?: unknown,
): TlsFileError {
  return new TlsFileError(`${files[part]} (${SETTING_OF[part]}) ${what}`, { cause });
}

function readText(files: TlsFiles, part: Part): string {
  try {
    // PEM is ASCII; the text around it may be anything.
    return readFileSync(files[part], "latin1");
  } catch (error) {
    const code = codeOf(error) ?? "";
    throw fault([part, files], READ_FAULTS[code] ?? `cannot be read: ${code}`, error);
  }
}

const READ_FAULTS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  EACCES: "cannot be read: this user has no permission",
  EISDIR: "is a folder, not a file",
};

const CERTIFICATE =
  /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[^-]*-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g;
const PRIVATE_KEY = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----/;
const ENCRYPTED = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: *4,ENCRYPTED/m;

type Chain = readonly [X509Certificate, ...X509Certificate[]];

function parseChain(text: string, files: TlsFiles): Chain {
  const [first, ...others] = text.match(CERTIFICATE) ?? [];
  if (first === undefined) {
    const what = PRIVATE_KEY.test(text)
      ? "holds a private key and no certificate: are tls_cert and tls_key exchanged?"
      : "holds no certificate in PEM form (-----BEGIN CERTIFICATE-----); " +
        "openssl x509 -inform der -in FILE makes it of DER";
    throw fault(["cert", files], what);
  }
  const parse = (pem: string, index: number): X509Certificate => {
    try {
      return new X509Certificate(pem);
    } catch (error) {
      throw fault(
        ["cert", files],
        `is damaged: its certificate ${index + 1} cannot be read`,
        error,
      );
    }
  };
  return [parse(first, 0), ...others.map((pem, index) => parse(pem, index + 1))];
}

function parseKey(text: string, files: TlsFiles): KeyObject {
  if (!PRIVATE_KEY.test(text)) {
    const what = text.includes("-----BEGIN CERTIFICATE-----")
      ? "holds a certificate and no private key: are tls_cert and tls_key exchanged?"
      : "holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)";
    throw fault(["key", files], what);
  }
  if (ENCRYPTED.test(text)) {
    const what =
      "is encrypted: nobody is there to type its pass phrase; openssl pkey -in FILE writes it " +
      "without one, and the file must then be readable for this user only";
    throw fault(["key", files], what);
  }
  try {
    return createPrivateKey(text);
  } catch (error) {
    throw fault(["key", files], "is damaged: its private key cannot be read", error);
  }
}

function mismatch(
  chain: Chain,
  { privateKey, files }: { readonly privateKey: KeyObject; readonly files: TlsFiles },
): TlsFileError {
  const index = chain.findIndex((each) => each.checkPrivateKey(privateKey));
  const what =
    index === -1
      ? `does not belong to the certificate in ${files.cert}`
      : `belongs to certificate ${index + 1} in ${files.cert}, which must be the first there`;
  return fault(["key", files], what);
}

// A date that cannot be read must not end the daemon.
function toText(date: Date): string {
  return Number.isNaN(date.getTime()) ? "unknown" : date.toISOString();
}

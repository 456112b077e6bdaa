import { createPrivateKey, type KeyObject } from "node:crypto";

import type { Config, TlsFiles } from "../config/config.ts";
import {
  certificatesIn,
  pemFault,
  PRIVATE_KEY,
  readPem,
  type PemFile,
} from "../deliver/pem-file.ts";
import { readAuthorities } from "../deliver/trust.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { messageOf } from "../domain/error.ts";
import type { Logger } from "../domain/log.ts";
import type { HttpServer } from "../http/server/server.ts";
import { checkPair, type TlsPair } from "../http/server/tls-server.ts";

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
 * Reads a certificate chain and its key. Throws a TlsFileError when a file is missing, cannot be read, is not
 * PEM or is encrypted, and when the two do not belong together. A certificate that is not valid yet, or no longer, is
 * returned all the same: see {@link warnOfValidity}.
 */
export function readTlsFiles(files: TlsFiles): TlsMaterial {
  const certFile = { path: files.cert, name: "tls_cert" };
  const keyFile = { path: files.key, name: "tls_key" };
  const [cert, key] = [readPem(certFile), readPem(keyFile)];
  const chain = certificatesIn(cert, certFile, EXCHANGED);
  const privateKey = parseKey(key, keyFile);
  const [own] = chain;
  if (!own.checkPrivateKey(privateKey)) {
    const index = chain.findIndex((each) => each.checkPrivateKey(privateKey));
    const what =
      index === -1
        ? `does not belong to the certificate in ${files.cert}`
        : `belongs to certificate ${index + 1} in ${files.cert}, which must be the first there`;
    throw pemFault(keyFile, what);
  }
  try {
    checkPair({ cert, key });
  } catch (error) {
    throw pemFault(certFile, `cannot be served with ${files.key}: ${messageOf(error)}`, error);
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

/** The authorities of `webhooks.ca`, as PEM. Throws a TlsFileError if the file cannot be read or holds none. */
export function readWebhookAuthorities({
  webhooks: { ca },
}: Pick<Config, "webhooks">): readonly string[] {
  return ca === null ? [] : readAuthorities({ path: ca, name: "webhooks.ca" });
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

const EXCHANGED = ": are tls_cert and tls_key exchanged?";

const ENCRYPTED = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: *4,ENCRYPTED/m;

function parseKey(text: string, file: PemFile): KeyObject {
  if (!PRIVATE_KEY.test(text)) {
    const what = text.includes("-----BEGIN CERTIFICATE-----")
      ? `holds a certificate and no private key${EXCHANGED}`
      : "holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)";
    throw pemFault(file, what);
  }
  if (ENCRYPTED.test(text)) {
    const what =
      "is encrypted: nobody is there to type its pass phrase; openssl pkey -in FILE writes it " +
      "without one, and the file must then be readable for this user only";
    throw pemFault(file, what);
  }
  try {
    return createPrivateKey(text);
  } catch (error) {
    throw pemFault(file, "is damaged: its private key cannot be read", error);
  }
}

// A date that cannot be read must not end the daemon.
function toText(date: Date): string {
  return Number.isNaN(date.getTime()) ? "unknown" : date.toISOString();
}

import { codeOf } from "../domain/error.ts";

/** The vocabulary of errors is fixed: raw messages name addresses, and show what listens inside a network. */

/** Used for a connection that closes before anything came. */
export const CLOSED = "connection was closed without a response";
const UNTRUSTED = "certificate is not trusted";

/** No process listens there. */
export const CONNECTION_REFUSED = "connection was refused";

const CONNECT_FAILURES: ReadonlyMap<string, string> = new Map([
  ["ECONNREFUSED", CONNECTION_REFUSED],
  ["ECONNRESET", "connection was closed while connecting"],
  ["ETIMEDOUT", "connecting took too long"],
  ["EHOSTUNREACH", "host cannot be reached"],
  ["EHOSTDOWN", "host cannot be reached"],
  ["ENETUNREACH", "network cannot be reached"],
  ["EADDRNOTAVAIL", "network cannot be reached"],
  ["EMFILE", "too many open connections"],
  ["ENFILE", "too many open connections"],
]);

const TLS_FAILURES: ReadonlyMap<string, string> = new Map([
  ["ERR_TLS_CERT_ALTNAME_INVALID", "certificate is for another name"],
  ["CERT_HAS_EXPIRED", "certificate has expired"],
  ["CERT_NOT_YET_VALID", "certificate is not yet valid"],
  ["CERT_REVOKED", "certificate was revoked"],
  ["CERT_UNTRUSTED", UNTRUSTED],
  ["CERT_REJECTED", UNTRUSTED],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", UNTRUSTED],
  ["SELF_SIGNED_CERT_IN_CHAIN", UNTRUSTED],
  ["UNABLE_TO_GET_ISSUER_CERT", UNTRUSTED],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", UNTRUSTED],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", UNTRUSTED],
  ["INVALID_CA", UNTRUSTED],
  ["INVALID_PURPOSE", UNTRUSTED],
  ["ECONNRESET", "connection was closed during the TLS handshake"],
]);

const ANSWER_FAILURES: ReadonlyMap<string, string> = new Map([
  ["ECONNRESET", CLOSED],
  ["EPIPE", CLOSED],
  ["ETIMEDOUT", CLOSED],
  ["HPE_HEADER_OVERFLOW", "response headers are too large"],
]);

export function connectFailure(error: unknown): string {
  return CONNECT_FAILURES.get(codeOf(error) ?? "") ?? "connection failed";
}

export function tlsFailure(error: unknown): string {
  return TLS_FAILURES.get(codeOf(error) ?? "") ?? "TLS handshake failed";
}

export function answerFailure(error: unknown): string {
  const code = codeOf(error) ?? "";
  // llhttp's codes begin with HPE_, OpenSSL's with ERR_SSL_: an alert after the handshake, say.
  if (code.startsWith("ERR_SSL_")) return "TLS failed";
  const known = ANSWER_FAILURES.get(code);
  if (known !== undefined) return known;
  return code.startsWith("HPE_") ? "response is not valid HTTP" : "connection failed";
}

/** True for an error that explains why TLS failed, in any phase. */
export function isTlsFailure(error: unknown): boolean {
  const code = codeOf(error) ?? "";
  // EPROTO: the other side does not speak TLS. A reset connection may have been of any kind.
  const isKnown = code !== "ECONNRESET" && TLS_FAILURES.has(code);
  return isKnown || code === "EPROTO" || code.startsWith("ERR_TLS_");
}

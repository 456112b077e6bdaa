import { timingSafeEqual } from "node:crypto";

import { textRule, type Rule } from "../rule.ts";
import { parseAuthorization } from "./credentials.ts";
import { hashKey } from "./key.ts";

// RFC 6750 §2.1, as long as the Base64 of 24 random bytes at least. No account's key and no worker's token: whoever has
// that would read the metrics too.
const TOKEN = /^(?!pbd_)(?=.{32,256}$)[0-9A-Za-z._~+/-]+=*$/;

/** The secret with which a Prometheus server reads the metrics at the API's address. */
export const METRICS_TOKEN: Rule<string> = textRule({
  takes:
    "32 to 256 characters of A-Za-z0-9._~+/-, and no key (pbd_…); make one with: openssl rand -hex 32",
  hint: "TOKEN",
  schema: { type: "string", pattern: TOKEN.source },
  isSecret: true,
  read: (text) => (TOKEN.test(text) ? text : null),
});

/**
 * True where the one `Authorization` header of a request has the token as Bearer. Compared by their hashes: how long
 * that takes tells nothing about the token.
 */
export function hasMetricsToken(headers: readonly string[], token: string | null): boolean {
  const credentials = parseAuthorization(headers);
  if (token === null || credentials?.kind !== "bearer") return false;
  return timingSafeEqual(Buffer.from(hashKey(credentials.key)), Buffer.from(hashKey(token)));
}

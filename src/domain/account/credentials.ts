import { hash, timingSafeEqual } from "node:crypto";

import { randomBytes } from "../id.ts";
import { type Rule, textRule } from "../rule.ts";
import { hashKey } from "./key.ts";
import type { OwnLimits } from "./quota.ts";

export type Credentials =
  | { readonly kind: "basic"; readonly login: string; readonly key: string }
  | { readonly kind: "bearer"; readonly key: string };

// Longer than any login and key can be in Base64. It bounds the work that an unauthenticated caller can cause.
const HEADER_LENGTH_MAX = 1024;
const SCHEME_AND_TOKEN = /^(basic|bearer) ([\x21-\x7e]+)$/i;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Parses the `Authorization` headers of a request as strictly as http-api.md asks: exactly one header, the scheme in
 * any case, one space, strict Base64, UTF-8, split at the first colon. Null for anything else.
 */
export function parseAuthorization(headers: readonly string[]): Credentials | null {
  const [header, ...others] = headers;
  if (header === undefined || others.length > 0 || header.length > HEADER_LENGTH_MAX) return null;
  const match = SCHEME_AND_TOKEN.exec(header);
  const token = match?.[2];
  if (token === undefined) return null;
  return match?.[1]?.toLowerCase() === "bearer"
    ? { kind: "bearer", key: token }
    : parseBasic(token);
}

function parseBasic(token: string): Credentials | null {
  const bytes = Buffer.from(token, "base64");
  // Buffer accepts line breaks, white space, missing padding and base64url; the rule accepts none of them. Only strict
  // Base64 encodes back to the same text.
  if (bytes.toString("base64") !== token) return null;
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    return null; // Not UTF-8: malformed like the rest, nothing to report beyond that.
  }
  const colon = text.indexOf(":");
  if (colon === -1) return null;
  return { kind: "basic", login: text.slice(0, colon), key: text.slice(colon + 1) };
}

export interface KeyHolder {
  readonly accountId: number;
  readonly login: string;
  readonly keyId: string;
  readonly keyRevoked: boolean;
  readonly accountDisabled: boolean;
  readonly ownLimits: OwnLimits;
}

export type Authentication =
  | { readonly kind: "authenticated"; readonly holder: KeyHolder }
  | { readonly kind: "refused"; readonly code: 40100 | 40101 | 40102 };

/**
 * Judges credentials by what the store knows about their key. The order is part of http-api.md: an unknown key,
 * or a login that does not own the key, learns nothing about revocation.
 */
export function decideAuthentication(
  credentials: Credentials,
  holder: KeyHolder | null,
): Authentication {
  if (holder === null) return { kind: "refused", code: 40100 };
  if (credentials.kind === "basic" && credentials.login !== holder.login) {
    return { kind: "refused", code: 40100 };
  }
  if (holder.keyRevoked) return { kind: "refused", code: 40101 };
  if (holder.accountDisabled) return { kind: "refused", code: 40102 };
  return { kind: "authenticated", holder };
}

export const SIGN_IN_TOKEN_PREFIX = "pbd_link_";

/** A secret that only its holder knows, and its stored form: its SHA-256 in hex. */
export interface SessionSecret {
  readonly secret: string;
  readonly hash: string;
}

// 32 bytes in base64url.
const SECRET = /^[A-Za-z0-9_-]{43}$/;

export function newSessionSecret(): SessionSecret {
  return mint("");
}

export function newSignInToken(): SessionSecret {
  return mint(SIGN_IN_TOKEN_PREFIX);
}

/** The hash under which a cookie's value is stored; null for text that cannot be one. */
export function sessionHash(text: string): string | null {
  return SECRET.test(text) ? hash("sha256", text, "hex") : null;
}

/** The hash under which a link's token is stored; null for text that cannot be one. */
export function signInTokenHash(text: string): string | null {
  const isToken =
    text.startsWith(SIGN_IN_TOKEN_PREFIX) && SECRET.test(text.slice(SIGN_IN_TOKEN_PREFIX.length));
  return isToken ? hash("sha256", text, "hex") : null;
}

function mint(prefix: string): SessionSecret {
  const secret = prefix + randomBytes(32).toString("base64url");
  return { secret, hash: hash("sha256", secret, "hex") };
}

// RFC 6750 §2.1, as long as the Base64 of 24 random bytes at least. Neither an account's key nor a worker's token:
// their holders must not read the metrics.
const TOKEN = /^(?!pbd_)(?=.{32,256}$)[0-9A-Za-z._~+/-]+=*$/;

/** The secret with which a Prometheus server reads the metrics at the API's address. */
export const METRICS_TOKEN: Rule<string> = textRule({
  takes:
    "32 to 256 characters of A-Za-z0-9._~+/-, but not an account's key (pbd_…); generate one with: openssl rand -hex 32",
  hint: "TOKEN",
  schema: { type: "string", pattern: TOKEN.source },
  isSecret: true,
  read: (text) => (TOKEN.test(text) ? text : null),
});

/** True if the one `Authorization` header has the token. Hashes are compared: their time says nothing about it. */
export function hasMetricsToken(headers: readonly string[], token: string | null): boolean {
  const credentials = parseAuthorization(headers);
  if (token === null || credentials?.kind !== "bearer") return false;
  return timingSafeEqual(Buffer.from(hashKey(credentials.key)), Buffer.from(hashKey(token)));
}

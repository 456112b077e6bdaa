import { hash } from "node:crypto";

import { randomBytes } from "../random.ts";

/** The beginning of the token of every sign-in link. */
export const SIGN_IN_TOKEN_PREFIX = "pbd_link_";

/** A secret that only its holder knows, and its stored form: its SHA-256 in hex. */
export interface SessionSecret {
  readonly secret: string;
  readonly hash: string;
}

// 32 bytes in base64url.
const SECRET = /^[A-Za-z0-9_-]{43}$/;

/** Makes a new value of a cookie: 256 random bits. */
export function newSessionSecret(): SessionSecret {
  return mint("");
}

/** Makes a new token of a sign-in link. */
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

import { hash, randomBytes } from "node:crypto";

/** What the token of every sign-in link begins with. */
export const SIGN_IN_TOKEN_PREFIX = "pbd_link_";

/** What only its holder knows, and what is stored of it: its SHA-256 in hex. */
export interface SessionSecret {
  readonly secret: string;
  readonly hash: string;
}

// 32 bytes in base64url.
const SECRET = /^[A-Za-z0-9_-]{43}$/;

/** A cookie's value, made anew: 256 random bits. */
export function newSessionSecret(): SessionSecret {
  return mint("");
}

/** A sign-in link's token, made anew. */
export function newSignInToken(): SessionSecret {
  return mint(SIGN_IN_TOKEN_PREFIX);
}

/** The hash under which a cookie's value is stored; null for text that was never one. */
export function sessionHash(text: string): string | null {
  return SECRET.test(text) ? hash("sha256", text, "hex") : null;
}

/** The hash under which a link's token is stored; null for text that was never one. */
export function signInTokenHash(text: string): string | null {
  const isToken =
    text.startsWith(SIGN_IN_TOKEN_PREFIX) && SECRET.test(text.slice(SIGN_IN_TOKEN_PREFIX.length));
  return isToken ? hash("sha256", text, "hex") : null;
}

function mint(prefix: string): SessionSecret {
  const secret = prefix + randomBytes(32).toString("base64url");
  return { secret, hash: hash("sha256", secret, "hex") };
}

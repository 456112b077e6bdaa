import { SESSION_AGE_MS } from "../../domain/account/account.ts";
import type { AnswerHeaderDoc, Arrival } from "../operation.ts";

/** The name of a session's cookie, and whether browsers send it over HTTPS alone. */
export interface SessionCookie {
  readonly name: string;
  readonly isSecure: boolean;
}

/**
 * The cookie of a daemon's sessions, for one way to it. Cookies do not distinguish ports, so the port is in the name; of
 * daemons that share a server it is something that they all have, because a balancer sends a browser to each of them.
 * Over HTTPS the prefix keeps every other host, and everything that came in the clear, from setting it.
 */
export function sessionCookie({ isHttps, sessionScope }: Arrival): SessionCookie {
  return { name: `${isHttps ? "__Host-" : ""}postbackd-${sessionScope}`, isSecure: isHttps };
}

/** Every value that the `Cookie` headers have for a name, exactly as sent: nothing is decoded. */
export function cookieValues(
  headers: readonly string[],
  { name }: Pick<SessionCookie, "name">,
): readonly string[] {
  const pairs = headers.flatMap((line) => line.split(";"));
  return pairs.flatMap((pair) => {
    const equals = pair.indexOf("=");
    const isNamed = equals !== -1 && pair.slice(0, equals).trim() === name;
    return isNamed ? [pair.slice(equals + 1).trim()] : [];
  });
}

/** The `Set-Cookie` that gives a browser its session. */
export function givenCookie(cookie: SessionCookie, secret: string): string {
  return cookieText(cookie, secret, SESSION_AGE_MS / 1000);
}

/** The `Set-Cookie` that takes it away. */
export function takenCookie(cookie: SessionCookie): string {
  return cookieText(cookie, "", 0);
}

function cookieText({ name, isSecure }: SessionCookie, value: string, seconds: number): string {
  const secure = isSecure ? "; Secure" : "";
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly${secure}; SameSite=Strict`;
}

/** The documentation of the header that gives the cookie, or takes it away. */
export const SET_COOKIE: Readonly<Record<string, AnswerHeaderDoc>> = {
  "Set-Cookie": {
    description: "The session's cookie, which scripts cannot read; empty where it is taken away.",
    schema: {
      type: "string",
      pattern:
        "^(__Host-)?postbackd-[0-9a-f]+=[A-Za-z0-9_-]*; Path=/; Max-Age=\\d+; HttpOnly; (Secure; )?SameSite=Strict$",
    },
    isAlways: true,
  },
};

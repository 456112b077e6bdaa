import type { IncomingMessage } from "node:http";

import { limitsOf, type AccountLimits, type OwnLimits } from "../../domain/account/quota.ts";
import { StatusError } from "../../domain/status.ts";
import type { AccountRef } from "../operation.ts";
import { headerValues } from "../server/raw-headers.ts";
import { BEARER_CHALLENGE } from "./authenticate.ts";
import { guardBrowser, guardSession, type BrowserPolicy } from "./browser-guard.ts";
import { arrivalOf, type ProxyPolicy } from "./client-address.ts";
import { cookieValues, sessionCookie, takenCookie } from "./session-cookie.ts";
import { findLiveSession, isAutomatic, type SessionLookup } from "./session-lookup.ts";

/** The dependencies of the look at a session's cookie. */
export interface SessionGateDeps extends SessionLookup {
  readonly proxies: ProxyPolicy;
  /** The names by which browsers may come; null where no dashboard is served: then cookies mean nothing. */
  readonly browsers: BrowserPolicy | null;
  /** The limits of each account that has none of its own. */
  readonly accountLimits: AccountLimits;
}

/** An account with its present limits. */
export function toAccountRef(
  { accountId, login, ownLimits }: Omit<AccountRef, "limits"> & { readonly ownLimits: OwnLimits },
  { accountLimits }: Pick<SessionGateDeps, "accountLimits">,
): AccountRef {
  return { accountId, login, limits: limitsOf(ownLimits, accountLimits) };
}

/** The caller: an account by its key or its session, or the operator. */
export interface Identity {
  /** Null is the operator. */
  readonly account: AccountRef | null;
  /** A name of the key or the session that is no secret. */
  readonly credential: string;
  /** Throws the refusal that it would get now. Counts as no activity, and counts no refusal. */
  readonly admitAgain: () => Promise<void>;
}

/**
 * Returns the caller by a session's cookie; null where there is none, or no dashboard is served. Throws 40301 for a
 * request that a foreign page talked a browser into, and 40100, which takes the cookie away, for a session that is
 * over.
 */
export async function identifySession(
  request: IncomingMessage,
  { deps }: { readonly deps: SessionGateDeps },
): Promise<Identity | null> {
  if (deps.browsers === null) return null;
  const cookie = sessionCookie(arrivalOf(request, deps.proxies));
  const values = cookieValues(headerValues(request, "cookie"), cookie);
  if (values.length === 0) return null;
  guardBrowser(request, deps.browsers);
  guardSession(request);
  const session = await findLiveSession(values, deps);
  if (session === null) throw sessionOver(takenCookie(cookie));
  const { sessionId, holder } = session;
  if (!isAutomatic(headerValues(request, "x-refresh"))) {
    deps.sessionUsage.note(sessionId, deps.clock.steady());
  }
  return {
    account: holder === null ? null : toAccountRef(holder, deps),
    credential: `session ${sessionId}`,
    async admitAgain() {
      if ((await findLiveSession(values, deps)) === null) throw sessionOver(takenCookie(cookie));
    },
  };
}

function sessionOver(taken: string): StatusError {
  return new StatusError(40100, {
    detail: "The session is over: sign in again.",
    headers: { "www-authenticate": BEARER_CHALLENGE, "set-cookie": taken },
  });
}

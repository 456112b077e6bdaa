import type { IncomingMessage } from "node:http";

import type { KeyHolder } from "../domain/credentials.ts";
import { StatusError, type ResponseHeaders } from "../domain/status.ts";
import type { WorkerHolder } from "../store/store.ts";
import {
  authenticate,
  authenticateWorker,
  type KeyStore,
  type WorkerStore,
} from "./authenticate.ts";
import { addressKey, clientFacts, type ProxyPolicy } from "./client-address.ts";
import { rateLimitHeaders, type RateLimiter } from "./rate-limiter.ts";
import { headerValues } from "./raw-headers.ts";
import type { UsageNotes } from "./usage-notes.ts";

export interface GateDeps {
  readonly store: KeyStore & WorkerStore;
  readonly proxies: ProxyPolicy;
  readonly keyUsage: UsageNotes<string>;
  readonly workerUsage: UsageNotes<number>;
  /** By client address. */
  readonly failedAuthentications: RateLimiter;
  /** By account. */
  readonly requests: RateLimiter;
}

/** Refuses with 40300 what came over plain HTTP although HTTPS is served (contract §1). */
export function requireHttps(request: IncomingMessage, { proxies }: GateDeps): void {
  // Without proxies nothing can say so, and every request would pay for the look.
  if (proxies.trusted.length === 0 || !clientFacts(request, proxies).isPlainHttp) return;
  const detail = "Keys must not travel in the clear: call this API over HTTPS.";
  throw new StatusError(40300, { detail });
}

/** What limits count a client's requests by: its address, of IPv6 the /64. */
export function clientKey(request: IncomingMessage, { proxies }: GateDeps): string {
  return addressKey(clientFacts(request, proxies).address);
}

/** An account that may go on, and the headers that its answer carries about its limit. */
export interface Admission {
  readonly holder: KeyHolder;
  readonly headers: ResponseHeaders;
}

/**
 * Lets an account in, or throws: 401xx for its credentials, 42900 for an address with too many refused ones
 * and for an account with too many requests. A valid key is never held up by what others from its
 * address did.
 */
export async function admit(
  request: IncomingMessage,
  { deps, now }: { readonly deps: GateDeps; readonly now: number },
): Promise<Admission> {
  const holder = await identify(authenticate, { request, deps });
  deps.keyUsage.note(holder.keyId, now);
  const { requests } = deps;
  if (requests.limit === 0) return { holder, headers: {} };
  const verdict = requests.count(String(holder.accountId));
  const headers = rateLimitHeaders("requests", verdict);
  if (verdict.isAllowed) return { holder, headers };
  throw tooManyRequests(verdict.resetSeconds, {
    detail: `This account may send ${requests.limit} requests a minute.`,
    headers,
  });
}

/**
 * Lets a worker in, or throws: 40100 and 40101 for its token, 42900 for an address with too many refused ones. How
 * often a worker may call is not limited: the operator runs it.
 */
export async function admitWorker(
  request: IncomingMessage,
  { deps, now }: { readonly deps: GateDeps; readonly now: number },
): Promise<WorkerHolder> {
  const worker = await identify(authenticateWorker, { request, deps });
  deps.workerUsage.note(worker.workerId, now);
  return worker;
}

async function identify<Who>(
  by: (headers: readonly string[], store: GateDeps["store"]) => Promise<Who>,
  { request, deps }: { readonly request: IncomingMessage; readonly deps: GateDeps },
): Promise<Who> {
  try {
    return await by(headerValues(request, "authorization"), deps.store);
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    const verdict = deps.failedAuthentications.count(clientKey(request, deps));
    if (verdict.isAllowed) throw error;
    const detail = "Too many refused credentials came from this address.";
    throw tooManyRequests(verdict.resetSeconds, { detail });
  }
}

/** 42900, with the time after which it is worth another try. */
export function tooManyRequests(
  resetSeconds: number,
  { detail, headers = {} }: { readonly detail: string; readonly headers?: ResponseHeaders },
): StatusError {
  return new StatusError(42900, {
    detail,
    headers: { ...headers, "retry-after": String(resetSeconds) },
  });
}

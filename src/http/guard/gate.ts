import type { IncomingMessage } from "node:http";

import { StatusError, type ResponseHeaders } from "../../domain/status.ts";
import type { Store, WorkerHolder } from "../../store/store.ts";
import type { Access, AccountRef } from "../operation.ts";
import { headerValues } from "../server/raw-headers.ts";
import type { UsageNotes } from "../usage-notes.ts";
import {
  authenticate,
  authenticateWorker,
  withoutBasic,
  type KeyStore,
  type WorkerStore,
} from "./authenticate.ts";
import { guardBrowser, guardSession, isFromPage } from "./browser-guard.ts";
import { addressKey, arrivalOf, clientFacts } from "./client-address.ts";
import { tooManyRequests, type RateLimiter, type RatePolicy } from "./rate-limiter.ts";
import { cookieValues, sessionCookie } from "./session-cookie.ts";
import {
  identifySession,
  toAccountRef,
  type Identity,
  type SessionGateDeps,
} from "./session-gate.ts";

export interface GateDeps extends SessionGateDeps {
  readonly store: KeyStore & WorkerStore & Pick<Store, "findSession" | "findAccount">;
  readonly keyUsage: UsageNotes<string>;
  readonly workerUsage: UsageNotes<number>;
  /** By client address. */
  readonly failedAuthentications: RateLimiter;
  /** By account. */
  readonly requests: RateLimiter;
}

/** The context of every check at the gate, beside the request. */
export interface GateContext {
  readonly deps: GateDeps;
  readonly now: number;
}

/** Refuses with 40300 a request over plain HTTP although HTTPS is served (contract §1). */
export function requireHttps(
  request: IncomingMessage,
  { proxies }: Pick<GateDeps, "proxies">,
): void {
  // Without proxies no header can say so, and every request would pay for the look.
  if (proxies.trusted.length === 0 || !clientFacts(request, proxies).isPlainHttp) return;
  const detail = "Keys must not travel in the clear: call this API over HTTPS.";
  throw new StatusError(40300, { detail });
}

/** The key by which limits count a client's requests: its address, of IPv6 the /64. */
export function clientKey(request: IncomingMessage, { proxies }: GateDeps): string {
  return addressKey(clientFacts(request, proxies).address);
}

/** Who may go on, and the headers about a limit that the answer carries. */
export interface Admission {
  /** The account to act for; null: none, or all. */
  readonly account: AccountRef | null;
  readonly identity: Identity;
  readonly headers: ResponseHeaders;
}

/**
 * Admits callers of operations for accounts, viewers or the operator, or throws: 401xx for wrong credentials, 40301
 * for insufficient ones, 40400 for an account that the operator names and that does not exist, 42900 for an address
 * with too many refused credentials and for an account with too many requests. Refusals of others at its address
 * never hold up a valid key.
 */
export async function admit(
  request: IncomingMessage,
  { access, ...context }: GateContext & { readonly access: Exclude<Access, "public" | "worker"> },
): Promise<Admission> {
  const identity = await identify(identifyCaller, request, context);
  if (access === "operator") {
    if (identity.account === null) return { account: null, identity, headers: {} };
    throw forbidden("This is the operator's: `postbackd admin link` makes a link to sign in with.");
  }
  const account = identity.account ?? (await namedAccount(request, context.deps));
  if (access === "account" && account === null) {
    throw forbidden("Name the account to act for: X-Account: LOGIN.");
  }
  // A request of the operator does not count against the account.
  const headers = identity.account === null ? {} : countRequest(identity.account, context.deps);
  return { account, identity, headers };
}

/**
 * Admits a worker, or throws: 40100 and 40101 for its token, 42900 for an address with too many refused ones. How
 * often a worker may call is not limited: the operator runs it.
 */
export async function admitWorker(
  request: IncomingMessage,
  context: GateContext,
): Promise<WorkerHolder> {
  const worker = await identify(identifyWorker, request, context);
  context.deps.workerUsage.note(worker.workerId, context.now);
  return worker;
}

/** Throws 40100 or 40101 where this worker would no longer be admitted. Counts no refusal. */
export async function admitWorkerAgain(request: IncomingMessage, deps: GateDeps): Promise<void> {
  await authenticateWorker(headerValues(request, "authorization"), deps.store);
}

/** Refuses sign-ins that a foreign page talked a browser into: see {@link guardBrowser}. */
export function guardSignIn(request: IncomingMessage, deps: GateDeps): void {
  if (deps.browsers === null) return;
  guardBrowser(request, deps.browsers);
  const cookie = sessionCookie(arrivalOf(request, deps.proxies));
  if (cookieValues(headerValues(request, "cookie"), cookie).length > 0) guardSession(request);
}

type Identify<Who> = (request: IncomingMessage, context: GateContext) => Promise<Who>;

const identifyWorker: Identify<WorkerHolder> = (request, { deps }) =>
  authenticateWorker(headerValues(request, "authorization"), deps.store);

// A client that sends credentials with each request is no browser that was talked into it: its cookies mean nothing.
const identifyCaller: Identify<Identity> = async (request, context) => {
  const headers = headerValues(request, "authorization");
  const session = headers.length > 0 ? null : await identifySession(request, context);
  return session ?? identifyKey(headers, context);
};

async function identifyKey(
  headers: readonly string[],
  { deps, now }: GateContext,
): Promise<Identity> {
  const { keyId, ...holder } = await authenticate(headers, deps.store);
  deps.keyUsage.note(keyId, now);
  return {
    account: toAccountRef(holder, deps),
    credential: keyId,
    async admitAgain() {
      await authenticate(headers, deps.store);
    },
  };
}

async function identify<Who>(
  by: Identify<Who>,
  request: IncomingMessage,
  context: GateContext,
): Promise<Who> {
  try {
    return await by(request, context);
  } catch (error) {
    if (!(error instanceof StatusError) || error.httpStatus !== 401) throw error;
    const { deps } = context;
    refuseAfterMany(deps.failedAuthentications, clientKey(request, deps));
    throw isFromPage(request) ? withoutBasic(error) : error;
  }
}

/** Counts refused credentials of a client's address; throws 42900 when there are too many. */
export function refuseAfterMany(failedAuthentications: RateLimiter, clientKey: string): void {
  const verdict = failedAuthentications.count(clientKey);
  if (verdict.isAllowed) return;
  const detail = "Too many refused credentials came from this address.";
  throw tooManyRequests(verdict.resetSeconds, { detail });
}

async function namedAccount(request: IncomingMessage, deps: GateDeps): Promise<AccountRef | null> {
  const [login, ...others] = headerValues(request, "x-account");
  if (login === undefined) return null;
  if (others.length > 0) throw new StatusError(40000, { detail: "Send one X-Account header." });
  const account = await deps.store.findAccount(login);
  if (account !== null) return toAccountRef(account, deps);
  throw new StatusError(40400, { detail: "No account has the login that X-Account names." });
}

const REQUESTS: RatePolicy = {
  name: "requests",
  detail: ({ limit }) => `This account may send ${limit} requests a minute.`,
};

function countRequest({ accountId, limits }: AccountRef, { requests }: GateDeps): ResponseHeaders {
  const limit = limits.requestsPerMinute;
  return limit === 0 ? {} : requests.admit(String(accountId), REQUESTS, { limit });
}

function forbidden(detail: string): StatusError {
  return new StatusError(40301, { detail });
}

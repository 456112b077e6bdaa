import type { IncomingMessage } from "node:http";

import {
  type Authentication,
  type Credentials,
  type KeyHolder,
  decideAuthentication,
  hasMetricsToken,
  parseAuthorization,
} from "../../domain/account/credentials.ts";
import { hashKey, isWellFormedKey, isWellFormedWorkerToken } from "../../domain/account/key.ts";
import { type AccountLimits, type OwnLimits, limitsOf } from "../../domain/account/quota.ts";
import { type ResponseHeaders, StatusError } from "../../domain/status.ts";
import type { Actor, Store, WorkerHolder } from "../../store/store.ts";
import { noteCaller } from "../access-log.ts";
import type {
  FloodWatch,
  RateLimiter,
  RatePolicy,
  RefusedCredentials,
} from "../admission/quota.ts";
import type { AccountRef, Call, Caller, Operation } from "../operation.ts";
import type { UsageNotes } from "../usage-notes.ts";
import {
  type BrowserPolicy,
  type SessionLookup,
  cookieValues,
  findLiveSession,
  guardBrowser,
  guardDeveloper,
  guardNetwork,
  guardSession,
  isFromPage,
  noteActivity,
  sessionCookie,
  takenCookie,
} from "./browser.ts";
import {
  type ProxyPolicy,
  type ProxyWatch,
  addressKey,
  arrivalOf,
  clientFacts,
  headerValues,
} from "./client.ts";

export interface GateDeps extends SessionLookup {
  readonly store: Pick<Store, "findKeyHolder" | "findWorkerHolder" | "findSession" | "findAccount">;
  readonly proxies: ProxyPolicy;
  /** The names by which browsers may come; null where no dashboard is served: then cookies mean nothing. */
  readonly browsers: BrowserPolicy | null;
  /** The limits of each account that has none of its own. */
  readonly accountLimits: AccountLimits;
  /** Reads the metrics; null if they are not served. */
  readonly metricsToken: () => string | null;
  readonly keyUsage: UsageNotes<string>;
  readonly workerUsage: UsageNotes<number>;
  /** By client address: the address itself, or the /64 of IPv6. */
  readonly refusedCredentials: Pick<RefusedCredentials, "refuse">;
  /** By account. */
  readonly requests: RateLimiter;
  /** Learns of accounts that are refused for that limit. */
  readonly floods: Pick<FloodWatch, "note">;
  /** Looks for proxies that are not trusted. */
  readonly proxyWatch: Pick<ProxyWatch, "look">;
}

interface GateContext {
  readonly deps: GateDeps;
  readonly now: number;
}

/** Refuses with 40300 a request over plain HTTP although HTTPS is served (http-api.md). */
export function requireHttps(
  request: IncomingMessage,
  { proxies }: Pick<GateDeps, "proxies">,
): void {
  // Without proxies no header can say so, and every request would pay for the look.
  if (proxies.trusted.length === 0 || !clientFacts(request, proxies).isPlainHttp) return;
  const detail = "Keys must be encrypted in transit: call this API over HTTPS.";
  throw new StatusError(40300, { detail });
}

/** The key by which limits count a client's requests: its address, of IPv6 the /64 or the network of so many bits. */
export function clientKey(
  request: IncomingMessage,
  { proxies }: GateDeps,
  prefixBits?: 48 | 64,
): string {
  return addressKey(clientFacts(request, proxies).address, prefixBits);
}

/** A caller who may go on. */
export interface Admitted extends Pick<Call, "admitAgain"> {
  /** The caller, as the operation learns of it. */
  readonly who: Caller;
  /** The holder to which the bytes of the request are counted. */
  readonly holder: string;
  readonly isOperator: boolean;
  /** The caller, as the audit names it. */
  readonly actor: Pick<Actor, "kind" | "name">;
  /** The headers about a limit that the answer carries. */
  readonly headers: ResponseHeaders;
}

const EVERYBODY = {
  who: {},
  isOperator: false,
  actor: { kind: "nobody", name: null },
  headers: {},
  admitAgain: async () => {},
} as const;

/**
 * Admits a caller of an operation, or throws: 401xx for wrong credentials, 40301 for insufficient ones, 40400 for an
 * account that the operator names and that does not exist, 42900 for an address that failed too often and for an account
 * with too many requests. Failures of others at its address never hold up a known key, also a revoked one. How often a
 * worker may call is not limited: the operator runs it.
 */
export async function admit(
  request: IncomingMessage,
  { access, isSignIn }: Operation,
  context: GateContext,
): Promise<Admitted> {
  const { deps } = context;
  if (isSignIn === true) guardSignIn(request, deps);
  if (access === "developer") {
    if (deps.browsers !== null) guardDeveloper(request, deps.browsers);
    return { ...EVERYBODY, holder: "developer" };
  }
  if (access === "public" || access === "network") {
    if (access === "network" && deps.browsers !== null) guardNetwork(request, deps.browsers);
    return { ...EVERYBODY, holder: `address ${clientKey(request, deps)}` };
  }
  if (access === "worker") return admitWorker(request, context);
  const isScraper = () =>
    hasMetricsToken(headerValues(request, "authorization"), deps.metricsToken());
  if (access === "scraper" && isScraper()) {
    noteCaller(request, "metrics.token");
    return { ...EVERYBODY, holder: "scraper" };
  }
  const { account: own, credential, admitAgain } = await identify(identifyCaller, request, context);
  noteCaller(request, credential);
  const isOperator = own === null;
  const holder = isOperator ? "operator" : `account ${own.accountId}`;
  const actor = isOperator
    ? ({ kind: "operator", name: credential } as const)
    : ({ kind: "account", name: `${own.login} ${credential}` } as const);
  if (access === "operator" || access === "scraper") {
    if (isOperator) return { who: {}, holder, isOperator, actor, headers: {}, admitAgain };
    const detail = "Only the operator may do this: sign in with a link of `postbackd admin link`.";
    throw new StatusError(40301, { detail });
  }
  const account = own ?? (await namedAccount(request, deps));
  if (access === "account" && account === null) {
    throw new StatusError(40301, { detail: "Name the account to act for: X-Account: LOGIN." });
  }
  // A request of the operator does not count against the account.
  const headers = isOperator ? {} : countRequest(own, deps);
  const isFor = access === "account" && account !== null;
  const who = isFor ? { holder: account } : { scope: account, isOperator, credential };
  return { who, holder, isOperator, actor, headers, admitAgain };
}

async function admitWorker(request: IncomingMessage, context: GateContext): Promise<Admitted> {
  const { deps, now } = context;
  const worker = await identify(identifyWorker, request, context);
  deps.workerUsage.note(worker.workerId, now);
  noteCaller(request, `worker ${worker.name}`);
  return {
    ...EVERYBODY,
    who: { worker },
    holder: `worker ${worker.workerId}`,
    // Counts no refusal.
    async admitAgain() {
      await identifyWorker(request, context);
    },
  };
}

/** Refuses sign-ins that a foreign page talked a browser into: see {@link guardBrowser}. */
function guardSignIn(request: IncomingMessage, deps: GateDeps): void {
  if (deps.browsers === null) return;
  guardBrowser(request, deps.browsers);
  const cookie = sessionCookie(arrivalOf(request, deps.proxies));
  if (cookieValues(headerValues(request, "cookie"), cookie).length > 0) guardSession(request);
}

/** The caller: an account by its key or its session, or the operator. */
interface Identity {
  /** Null is the operator. */
  readonly account: AccountRef | null;
  /** A name of the key or the session that is not secret. */
  readonly credential: string;
  /** Throws the refusal that it would get now. Counts as no activity, and counts no refusal. */
  readonly admitAgain: () => Promise<void>;
}

type Identify<Who> = (request: IncomingMessage, context: GateContext) => Promise<Who>;

/**
 * Returns the worker that calls by its `Authorization` headers, or throws 40100 or 40101. It accepts
 * only a worker's token, as Bearer, and looks it up on every request, as keys are. No Basic: a worker has no login.
 */
const identifyWorker: Identify<WorkerHolder> = async (request, { deps: { store } }) => {
  const credentials = parseAuthorization(headerValues(request, "authorization"));
  if (credentials?.kind !== "bearer") throw challenge(40100, [BEARER_CHALLENGE]);
  const { key } = credentials;
  const worker = isWellFormedWorkerToken(key) ? await store.findWorkerHolder(hashKey(key)) : null;
  if (worker === null) throw challenge(40100, [INVALID_TOKEN]);
  if (worker.isRevoked) throw challenge(40101, [INVALID_TOKEN]);
  return worker;
};

// A client that sends credentials with each request is not a browser under the control of another site: its cookies are
// ignored.
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

/**
 * Returns the caller by a session's cookie; null without a session or a dashboard. Throws 40301 for a request that a
 * foreign page talked a browser into, and 40100, which takes the cookie away, for a session that is over.
 */
async function identifySession(
  request: IncomingMessage,
  { deps }: GateContext,
): Promise<Identity | null> {
  if (deps.browsers === null) return null;
  const cookie = sessionCookie(arrivalOf(request, deps.proxies));
  const values = cookieValues(headerValues(request, "cookie"), cookie);
  if (values.length === 0) return null;
  guardBrowser(request, deps.browsers);
  guardSession(request);
  const session = await findLiveSession(values, deps);
  if (session === null) throw sessionOver(takenCookie(cookie));
  noteActivity(session, headerValues(request, "x-refresh"), deps);
  const { sessionId, holder } = session;
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

function toAccountRef(
  { accountId, login, ownLimits }: Omit<AccountRef, "limits"> & { readonly ownLimits: OwnLimits },
  { accountLimits }: GateDeps,
): AccountRef {
  return { accountId, login, limits: limitsOf(ownLimits, accountLimits) };
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
    deps.refusedCredentials.refuse(error.code, clientKey(request, deps));
    throw isFromPage(request) ? withoutBasic(error) : error;
  }
}

async function namedAccount(request: IncomingMessage, deps: GateDeps): Promise<AccountRef | null> {
  const [login, ...others] = headerValues(request, "x-account");
  if (login === undefined) return null;
  if (others.length > 0) throw new StatusError(40000, { detail: "Send one X-Account header." });
  const account = await deps.store.findAccount(login);
  if (account !== null) return toAccountRef(account, deps);
  throw new StatusError(40400, { detail: "No account has the login of X-Account." });
}

const REQUESTS: RatePolicy = {
  name: "requests",
  detail: ({ limit }) => `This account may send ${limit} requests a minute.`,
};

function countRequest(
  { accountId, login, limits }: AccountRef,
  { requests, floods }: GateDeps,
): ResponseHeaders {
  const limit = limits.requestsPerMinute;
  if (limit === 0) return {};
  const refused = (): void => floods.note(login);
  return requests.admit(String(accountId), REQUESTS, { limit, refused });
}

const BASIC_CHALLENGE = 'Basic realm="postbackd", charset="UTF-8"';
/** For people who sign in at a page, where a browser's own dialog must not open. */
export const BEARER_CHALLENGE = 'Bearer realm="postbackd"';
const INVALID_TOKEN = `${BEARER_CHALLENGE}, error="invalid_token"`;

/**
 * Returns the account that calls by its `Authorization` headers, or throws 40100, 40101 or 40102 (http-api.md). The key
 * is looked up on every request, so a revocation by any process takes effect immediately.
 */
async function authenticate(
  headers: readonly string[],
  store: GateDeps["store"],
): Promise<KeyHolder> {
  const credentials = parseAuthorization(headers);
  if (credentials === null) throw challenge(40100, [BASIC_CHALLENGE, BEARER_CHALLENGE]);
  const verdict = await judgeCredentials(credentials, store);
  if (verdict.kind === "authenticated") return verdict.holder;
  const bearer = credentials.kind === "bearer" ? INVALID_TOKEN : BEARER_CHALLENGE;
  throw challenge(verdict.code, [BASIC_CHALLENGE, bearer]);
}

/** Judges credentials, however they came, by the present state of their key (http-api.md). */
export async function judgeCredentials(
  credentials: Credentials,
  store: Pick<Store, "findKeyHolder">,
): Promise<Authentication> {
  // A key with a wrong checksum was never made: no look-up is needed to know that.
  const { key } = credentials;
  const holder = isWellFormedKey(key) ? await store.findKeyHolder(hashKey(key)) : null;
  return decideAuthentication(credentials, holder);
}

/** The same refusal without Basic in its challenges. */
export function withoutBasic(error: StatusError): StatusError {
  const challenges = error.headers["www-authenticate"];
  if (typeof challenges !== "object") return error;
  const left = challenges.filter((line) => line !== BASIC_CHALLENGE);
  return new StatusError(error.code, {
    details: error.details,
    headers: { ...error.headers, "www-authenticate": left },
  });
}

function challenge(code: 40100 | 40101 | 40102, lines: readonly string[]): StatusError {
  return new StatusError(code, { headers: { "www-authenticate": lines } });
}

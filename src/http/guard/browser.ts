import type { IncomingMessage } from "node:http";

import { SESSION_AGE_MS, isSessionOver } from "../../domain/account/account.ts";
import { sessionHash } from "../../domain/account/credentials.ts";
import { isLoopbackHost, parseAddress } from "../../domain/address/address.ts";
import type { SteadyClock } from "../../domain/clock/clock.ts";
import { StatusError } from "../../domain/status.ts";
import type { Session, Store } from "../../store/store.ts";
import type { AnswerHeaderDoc, Arrival } from "../operation.ts";
import type { UsageNotes } from "../usage-notes.ts";
import { headerValues } from "./client.ts";

/**
 * Refuses what foreign pages can talk a browser into. None of this concerns clients that send a key with each
 * request: a browser never adds one by itself.
 */

/** The names by which browsers may come. */
export interface BrowserPolicy {
  /** In lower case, without ports. Addresses and localhost need not be listed. */
  readonly hosts: ReadonlySet<string>;
  /** Host and port of the public URL; null without a public URL. */
  readonly publicHost: string | null;
  /** True where others than this machine can come. */
  readonly isBeyondLoopback: boolean;
}

/** Makes the policy from settings that were checked before. */
export function toBrowserPolicy({
  host,
  publicUrl,
}: {
  readonly host: string;
  readonly publicUrl: string | null;
}): BrowserPolicy {
  const url = publicUrl === null ? null : new URL(publicUrl);
  const hosts = new Set([host.toLowerCase(), ...(url === null ? [] : [url.hostname])]);
  return { hosts, publicHost: url?.host ?? null, isBeyondLoopback: !isLoopbackHost(host) };
}

type Received = Pick<IncomingMessage, "rawHeaders" | "method">;

/** Why a request is refused whose Host is not one of the daemon's names; null if it is. */
export function hostFault(request: Received, { hosts }: BrowserPolicy): string | null {
  const [host = "", ...others] = headerValues(request, "host");
  const name = hostName(host.toLowerCase());
  const isOurs = name !== null && (isEverybodys(name) || hosts.has(name));
  // A foreign name that leads here is how a foreign page would read ours: DNS rebinding.
  if (isOurs && others.length === 0) return null;
  return "This host name is not one of this daemon: set public_url to the daemon's public URL.";
}

/** Refuses with 40301 a request that comes by a foreign name, or from another site. */
export function guardBrowser(request: Received, policy: BrowserPolicy): void {
  const isUnknown = isSilent(request) && request.method !== "GET" && request.method !== "HEAD";
  const sourceFault = isUnknown ? "Send Sec-Fetch-Site or Origin, as browsers do." : null;
  refuse(hostFault(request, policy) ?? sourceFault ?? originFault(request, policy));
}

function refuse(detail: string | null): void {
  if (detail !== null) throw new StatusError(40301, { detail });
}

/**
 * Refuses with 40301 what a foreign page can talk a browser into, where no key is needed. Programs send neither Origin
 * nor Fetch Metadata. In a network of containers, clients use a name without a dot. On a daemon that only this machine
 * reaches, no client does, and an attacker in its network could give such a name to a page.
 */
export function guardDeveloper(request: Received, policy: BrowserPolicy): void {
  const [host = ""] = headerValues(request, "host");
  const isLocalName =
    policy.isBeyondLoopback && isSilent(request) && /^[a-z0-9-]+(:\d+)?$/i.test(host);
  refuse((isLocalName ? null : hostFault(request, policy)) ?? originFault(request, policy));
}

/**
 * Refuses with 40301 the requests of web pages to a listener that needs no credentials. A scraper may use any name of
 * a listener that other machines reach. A loopback listener has no such names, so a foreign name there is DNS rebinding.
 */
export function guardNetwork(request: Received, policy: BrowserPolicy): void {
  const nameFault = policy.isBeyondLoopback ? null : hostFault(request, policy);
  refuse(nameFault ?? originFault(request, policy));
}

/** The value of X-Requested-With by which the page identifies itself. */
export const PAGE_NAME = "postbackd";

/** True for a request from the page's own code: no form and no link can add that header. */
export function isFromPage(request: Received): boolean {
  return headerValues(request, "x-requested-with").includes(PAGE_NAME);
}

/**
 * Refuses with 40301 a request that comes by a session's cookie and was not made by the page's code. Reads too: the
 * first task_get of a task collects it, and beyond localhost browsers do not say over plain HTTP which page asks for
 * an image.
 */
export function guardSession(request: Received): void {
  const detail = `Send X-Requested-With: ${PAGE_NAME} with each request of a session.`;
  refuse(isFromPage(request) ? null : detail);
}

const OWN_SITES: ReadonlySet<string> = new Set(["same-origin", "none"]);
const CROSS_SITE = "Requests from other sites and origins are refused.";

// Uses Fetch Metadata if the browser sends it, which it does for HTTPS and localhost; else Origin.
function originFault(request: Received, { publicHost }: BrowserPolicy): string | null {
  const sites = headerValues(request, "sec-fetch-site");
  if (sites.length > 0) return sites.every((site) => OWN_SITES.has(site)) ? null : CROSS_SITE;
  const origins = headerValues(request, "origin");
  const [host] = headerValues(request, "host");
  const own = [host?.toLowerCase(), publicHost].filter((each) => each !== null);
  return origins.every((origin) => own.includes(originHost(origin))) ? null : CROSS_SITE;
}

/** True for a request without headers about its page, such as the requests of programs. */
function isSilent(request: Received): boolean {
  return ["sec-fetch-site", "origin"].every((name) => headerValues(request, name).length === 0);
}

// `null`, like everything else that is no URL, has no host.
function originHost(origin: string): string {
  return /^https?:\/\/([^/?#@]+)$/i.exec(origin)?.[1]?.toLowerCase() ?? "";
}

const HOST = /^(\[[^\]]*\]|[^:[\]]*)(?::\d{1,5})?$/;

// The name in a Host header; an IPv6 address comes without its brackets.
function hostName(host: string): string | null {
  return HOST.exec(host)?.[1]?.replace(/^\[(.*)\]$/, "$1") ?? null;
}

// An address leads to the machine that has it, and browsers resolve localhost themselves: no name server has a say.
function isEverybodys(name: string): boolean {
  return name === "localhost" || name.endsWith(".localhost") || parseAddress(name) !== null;
}

interface SessionCookie {
  readonly name: string;
  /** Browsers send it over HTTPS alone. */
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

export interface SessionLookup {
  readonly store: Pick<Store, "findSession">;
  readonly sessionUsage: UsageNotes<number>;
  readonly clock: Pick<SteadyClock, "steady">;
}

/**
 * The current session of a cookie's values; null if it does not exist or has ended. Several values count as none:
 * another site may have set one of them, and the browser does not send which. It is looked up on every request, so a
 * process that ends it takes effect immediately.
 */
export async function findLiveSession(
  values: readonly string[],
  { store, sessionUsage, clock }: SessionLookup,
): Promise<Session | null> {
  const [value, ...others] = values;
  const hash = value === undefined || others.length > 0 ? null : sessionHash(value);
  // Uses noted since they were last written count too.
  const lastUses = sessionUsage.lastUses();
  const session = hash === null ? null : await store.findSession(hash);
  if (session === null) return null;
  const lastSeenAt = lastUses(session.sessionId, session.lastSeenAt) ?? session.lastSeenAt;
  return isSessionOver({ ...session, lastSeenAt }, clock.steady()) ? null : session;
}

/** Notes that a session was used, unless the page made the request by itself: that keeps no session alive. */
export function noteActivity(
  { sessionId }: Session,
  refresh: readonly string[],
  { sessionUsage, clock }: SessionLookup,
): void {
  if (!refresh.includes("automatic")) sessionUsage.note(sessionId, clock.steady());
}

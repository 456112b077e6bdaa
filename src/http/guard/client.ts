import type { IncomingMessage } from "node:http";

import {
  type Address,
  type AddressBlock,
  addressText,
  blockText,
  isWithin,
  parseAddress,
  parseBlock,
} from "../../domain/address/address.ts";
import type { Clock } from "../../domain/clock/clock.ts";
import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import type { ResponseHeaders } from "../../domain/status.ts";
import type { Arrival } from "../operation.ts";

/** The proxies whose headers count, and when plain HTTP is refused. */
export interface ProxyPolicy {
  /** Networks of the proxies whose headers are believed. */
  readonly trusted: readonly AddressBlock[];
  /** Whether this server does HTTPS itself. */
  readonly servesTls: boolean;
  /** Whether the operator accepts plain HTTP from clients that go around the proxies. */
  readonly insecureHttp: boolean;
  /** The same at all daemons that share their sessions; null if only one daemon exists. */
  readonly sessionScope?: string | null;
}

type ReceivedRequest = Pick<IncomingMessage, "rawHeaders"> & {
  readonly socket: { readonly remoteAddress?: string | undefined };
};

type ArrivedRequest = ReceivedRequest & {
  readonly socket: { readonly localPort?: number | undefined };
};

export function arrivalOf(request: ArrivedRequest, policy: ProxyPolicy): Arrival {
  // Only what a trusted proxy says is certain, and one that does not say may do either.
  const isHttps =
    policy.servesTls ||
    (policy.trusted.length > 0 &&
      isTrustedProxy(request.socket.remoteAddress ?? "", policy) &&
      forwardedScheme(request) === "https");
  return { isHttps, sessionScope: policy.sessionScope ?? `${request.socket.localPort ?? 0}` };
}

interface ClientFacts {
  /** In its one spelling ({@link addressText}); the empty text for a connection that is gone already. */
  readonly address: string;
  /** Whether it used plain HTTP where HTTPS is available: 40300. */
  readonly isPlainHttp: boolean;
}

/** Makes the policy from settings; `trustedProxies` are CIDR blocks and addresses that were checked before. */
export function toProxyPolicy({
  trustedProxies,
  ...rest
}: Omit<ProxyPolicy, "trusted"> & { readonly trustedProxies: readonly string[] }): ProxyPolicy {
  return { ...rest, trusted: trustedProxies.flatMap((text) => parseBlock(text) ?? []) };
}

/**
 * Finds out who sent a request. If the peer is a trusted proxy, X-Forwarded-For names the client: its right-most
 * address that is not a trusted proxy. A proxy appends the address of its peer, and the client can forge everything to
 * the left. X-Forwarded-Proto says whether the client used HTTPS; its last value is the nearest proxy's. A proxy that
 * sends none is believed to do HTTPS only. From any other peer both headers mean nothing.
 */
export function clientFacts(request: ReceivedRequest, policy: ProxyPolicy): ClientFacts {
  const text = request.socket.remoteAddress ?? "";
  const peer = parseAddress(text);
  if (peer === null || !isTrusted(peer, policy)) {
    const address = peer === null ? text : addressText(peer);
    // A plain HTTP server is meant for its proxies and this machine alone.
    const isOpen = policy.servesTls || policy.insecureHttp || policy.trusted.length === 0;
    const isPlainHttp =
      !isOpen && (peer === null || !LOOPBACK.some((block) => isWithin(peer.bytes, block)));
    return { address, isPlainHttp };
  }
  const client = forwardedFor(request, { proxy: peer, policy });
  const isPlainHttp = (forwardedScheme(request) ?? "https") !== "https";
  return { address: addressText(client), isPlainHttp };
}

/**
 * The key by which limits count an address: all of an IPv4 address, the first bits of an IPv6 address. A client has 2^64
 * addresses of a /64, and often a whole /48. Text that is not an address stands for itself.
 */
export function addressKey(address: string, prefixBits: 48 | 64 = 64): string {
  const parsed = parseAddress(address);
  if (parsed === null) return address;
  const { bytes } = parsed;
  return bytes.length === 4 ? addressText(parsed) : blockText({ bytes, prefixBits });
}

/** Whether a peer is one of the proxies whose headers are believed. */
export function isTrustedProxy(address: string, policy: ProxyPolicy): boolean {
  const peer = parseAddress(address);
  return peer !== null && isTrusted(peer, policy);
}

const LOOPBACK = ["127.0.0.0/8", "::1/128"].flatMap((text) => parseBlock(text) ?? []);

function isTrusted({ bytes }: Address, { trusted }: ProxyPolicy): boolean {
  return trusted.some((block) => isWithin(bytes, block));
}

function forwardedFor(
  request: ReceivedRequest,
  { proxy, policy }: { readonly proxy: Address; readonly policy: ProxyPolicy },
): Address {
  let nearest = proxy;
  for (const entry of listValues(request, "x-forwarded-for").toReversed()) {
    const address = parseEntry(entry);
    // Values further left passed through the sender of this one, so they prove nothing.
    if (address === null) return nearest;
    nearest = address;
    if (!isTrusted(address, policy)) return address;
  }
  return nearest;
}

function forwardedScheme(request: ReceivedRequest): string | undefined {
  return listValues(request, "x-forwarded-proto").at(-1)?.toLowerCase();
}

// Several lines form one list, in their order, and empty elements do not count (RFC 9110 §5.3, §5.6.1).
function listValues(request: ReceivedRequest, name: string): readonly string[] {
  const entries = headerValues(request, name).join(",").split(",");
  return entries.map((entry) => entry.trim()).filter((entry) => entry !== "");
}

const WITH_PORT = /^(?:\[([^\]]*)\]|([0-9.]+))(?::(\d{1,5}))?$/;

/** Reads an address, IPv6 with or without brackets, with or without a port. A zone belongs to another machine. */
function parseEntry(entry: string): Address | null {
  const [, bracketed, dotted, port = "0"] = WITH_PORT.exec(entry) ?? [];
  if (Number(port) > 65_535 || (bracketed !== undefined && !bracketed.includes(":"))) return null;
  const address = parseAddress(bracketed ?? dotted ?? entry);
  return address?.zone === null ? address : null;
}

// A year, as scanners and preload lists ask for. Subdomains are left out: they are other people's servers.
const STRICT: ResponseHeaders = { "strict-transport-security": "max-age=31536000" };
const NOTHING: ResponseHeaders = {};

const LOCALHOST = /^(?:.*\.)?localhost(?::\d*)?$/i;

/**
 * The header that makes browsers use HTTPS alone (RFC 6797), for a request that certainly came by HTTPS. Not for
 * localhost: the header counts for all ports of a name, and other programs serve plain HTTP there.
 */
export function strictTransport(request: ArrivedRequest, proxies: ProxyPolicy): ResponseHeaders {
  if (!proxies.servesTls && proxies.trusted.length === 0) return NOTHING;
  if (!arrivalOf(request, proxies).isHttps) return NOTHING;
  const isLocal = headerValues(request, "host").some((host) => LOCALHOST.test(host));
  return isLocal ? NOTHING : STRICT;
}

// To look costs a microsecond, and a proxy puts its headers on every request.
const LOOK_MS = 1000;
// A client that sends such a header once is not a proxy, and neither is one that repeats it half an hour later.
const LASTS_MS = MINUTE_MS;
const SHOWN_MS = HOUR_MS;
// A daemon has fewer proxies, and any client may have its own address.
const STREAKS_MAX = 16;

/**
 * Finds a proxy that is not configured: a peer that is not trusted and sends X-Forwarded-* for longer than a minute.
 */
export class ProxyWatch {
  readonly #clock: Pick<Clock, "monotonic">;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** By address, the most recent last: its requests with less than a minute between them. */
  readonly #streaks = new Map<string, { readonly firstAt: number; readonly lastAt: number }>();
  #found: { readonly address: string; readonly at: number } | null = null;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** Looks at a request, unless it has looked at another one just now. */
  look(request: ReceivedRequest, policy: ProxyPolicy): void {
    const now = this.#clock.monotonic();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    const peer = parseAddress(request.socket.remoteAddress ?? "");
    if (peer === null || isTrusted(peer, policy)) return;
    const names = ["x-forwarded-for", "x-forwarded-proto"];
    const isForwarded = names.some((name) => headerValues(request, name).length > 0);
    if (isForwarded) this.#note(addressText(peer), now);
  }

  /** The address of the last such peer; null without one within the hour. */
  address(): string | null {
    if (this.#found === null) return null;
    return this.#clock.monotonic() - this.#found.at <= SHOWN_MS ? this.#found.address : null;
  }

  #note(address: string, now: number): void {
    const known = this.#streaks.get(address);
    const goesOn = known !== undefined && now - known.lastAt <= LASTS_MS;
    const firstAt = goesOn ? known.firstAt : now;
    this.#streaks.delete(address);
    this.#streaks.set(address, { firstAt, lastAt: now });
    const [oldest] = this.#streaks.keys();
    if (this.#streaks.size > STREAKS_MAX && oldest !== undefined) this.#streaks.delete(oldest);
    if (now - firstAt >= LASTS_MS) this.#found = { address, at: now };
  }
}

/**
 * Every value of a header, one for each of its lines. Node's own `headers` keeps the first of two lines of a header
 * such as Authorization, and silently drops the other.
 */
export function headerValues(
  { rawHeaders }: Pick<IncomingMessage, "rawHeaders">,
  name: string,
): readonly string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [each, value] = [rawHeaders[i], rawHeaders[i + 1]];
    if (each?.length !== name.length || value === undefined) continue;
    if (each.toLowerCase() === name) values.push(value);
  }
  return values;
}

/** The elements of the values of an `Accept` header, in lower case. A quality that is not a number is 0. */
export function weighted(values: readonly string[]) {
  return values
    .join(",")
    .toLowerCase()
    .split(",")
    .map((element) => {
      const [name = "", ...parameters] = element.split(";").map((part) => part.trim());
      const given = parameters.find((parameter) => parameter.startsWith("q="));
      const quality = given === undefined ? 1 : Number(given.slice(2));
      return { name, parameters, quality: Number.isFinite(quality) ? quality : 0 };
    });
}

import { Resolver as DnsResolver } from "node:dns/promises";
import { readFileSync, statSync } from "node:fs";
import { isIP } from "node:net";

import { type Clock, settlesWithin } from "../domain/clock/clock.ts";
import { codeOf } from "../domain/error.ts";

/** The addresses of a name. A failure is one of a few fixed phrases, safe to show. */
export type Resolution =
  | { readonly kind: "addresses"; readonly addresses: readonly string[] }
  | { readonly kind: "failed"; readonly error: string };

export interface ResolverOptions {
  /** Name servers as `address` or `address:port`; unless given, the name servers of /etc/resolv.conf. */
  readonly servers?: readonly string[];
  /** /etc/hosts unless given. */
  readonly hostsFile?: string;
  readonly clock: Clock;
}

// Three tries of 2 s leave time for a connection within the 10 s of an attempt. c-ares waits for less where the
// server answers others quickly: with two tries it gave up a name that takes 2 s (2026-11).
const TRY_MS = 2000;
const TRIES = 3;

// Attempts join a look-up this young, so that a burst to one host asks once. No caller gets a result older than this:
// the result for an earlier attempt does not count.
const SHARED_MS_MAX = 1000;

// RFC 8305 §3. Routers and name servers that drop AAAA queries would delay every attempt by the 6 s of all tries.
const IPV6_DELAY_MS = 50;

// Each address is judged, and a hostile name server can pack 4,000 into one answer.
const ADDRESSES_MAX = 100;

const RESOLV_CONF = "/etc/resolv.conf";

interface Shared {
  readonly startedAt: number;
  readonly resolution: Promise<Resolution>;
}

interface LookUp extends Shared {
  end: (() => void) | null;
}

/**
 * Turns names into addresses over c-ares, for one attempt at a time: A and AAAA side by side, no search domains, no
 * cache. As in the system, names of the hosts file are resolved from it alone. So a machine without a name server can
 * deliver to the names that its operator listed. One family may fail when the other answers. After IPv4 addresses the
 * resolver waits 50 ms for IPv6 addresses: later ones are neither judged nor dialled.
 */
export class Resolver {
  readonly #clock: Clock;
  readonly #addressesListed: (host: string) => readonly string[];
  readonly #servers: readonly string[] | undefined;
  readonly #haveServersChanged: () => boolean;
  readonly #lookUps = new Map<string, LookUp>();
  /** Queries for AAAA without a response yet. They may outlast their look-up. */
  readonly #ipv6Queries = new Map<string, Shared>();
  readonly #turns = new LookUpTurns();
  #dns: DnsResolver;
  #isClosed = false;

  constructor({ servers, hostsFile = "/etc/hosts", clock }: ResolverOptions) {
    this.#clock = clock;
    this.#addressesListed = openHostsFile(hostsFile, clock);
    this.#servers = servers;
    // c-ares reads the servers of the system once; a daemon may outlive a change of network.
    this.#haveServersChanged = servers === undefined ? watchFile(RESOLV_CONF, clock) : () => false;
    this.#haveServersChanged();
    this.#dns = openDns(servers);
  }

  /**
   * Resolves `host` (lower case, punycode) to all its addresses, each once, in the order of {@link toDialOrder}. It
   * takes the turn of the account, or the daemon's own where none is given. Never rejects. Settles as soon as `signal`
   * is aborted, even while it waits for its turn; a look-up that others share goes on for them.
   */
  async resolve(
    host: string,
    {
      signal,
      accountId = null,
    }: { readonly signal: AbortSignal; readonly accountId?: number | null },
  ): Promise<Resolution> {
    if (this.#isClosed || signal.aborted) return CUT_SHORT;
    const listed = this.#listed(host);
    if (listed.length > 0) return toResolution(listed);
    const young = this.#young(this.#lookUps, host);
    if (young !== null) return await untilAborted(young.resolution, signal);
    const end = await this.#turns.take(accountId, signal);
    if (end === null || signal.aborted || this.#isClosed) {
      end?.();
      return CUT_SHORT;
    }
    const lookUp = this.#young(this.#lookUps, host) ?? this.#begin(host);
    // An attempt that joins another's look-up gives its slot back immediately.
    if (lookUp.end === null) lookUp.end = end;
    else end();
    return await untilAborted(lookUp.resolution, signal);
  }

  /** Ends all look-ups; every later call fails. To be called when nothing is sent any more. */
  close(): void {
    this.#isClosed = true;
    this.#dns.cancel();
  }

  #listed(host: string): readonly string[] {
    const addresses = this.#addressesListed(host);
    if (addresses.length > 0 || !isLocalhost(host)) return addresses;
    // RFC 6761 §6.3: such a name is loopback, and no name server is asked.
    return ["127.0.0.1", "::1"];
  }

  #young<Kind extends Shared>(all: ReadonlyMap<string, Kind>, host: string): Kind | null {
    const shared = all.get(host);
    const isYoung =
      shared !== undefined && this.#clock.monotonic() - shared.startedAt < SHARED_MS_MAX;
    return isYoung ? shared : null;
  }

  #begin(host: string): LookUp {
    if (this.#haveServersChanged()) this.#dns = openDns(this.#servers);
    const startedAt = this.#clock.monotonic();
    const ipv4 = answerOf(this.#dns.resolve4(host));
    const joined = this.#young(this.#ipv6Queries, host);
    const ipv6 = joined?.resolution ?? this.#queryIpv6(host, startedAt);
    const lookUp: LookUp = { startedAt, resolution: this.#both(ipv4, ipv6), end: null };
    this.#lookUps.set(host, lookUp);
    void lookUp.resolution.then(() => {
      if (this.#lookUps.get(host) === lookUp) this.#lookUps.delete(host);
    });
    // A place counts until the queries that it was for are over.
    void Promise.all(joined === null ? [ipv4, ipv6] : [ipv4]).then(() => lookUp.end?.());
    return lookUp;
  }

  #queryIpv6(host: string, startedAt: number): Promise<Resolution> {
    const query: Shared = { startedAt, resolution: answerOf(this.#dns.resolve6(host)) };
    this.#ipv6Queries.set(host, query);
    void query.resolution.then(() => {
      if (this.#ipv6Queries.get(host) === query) this.#ipv6Queries.delete(host);
    });
    return query.resolution;
  }

  async #both(ipv4: Promise<Resolution>, ipv6: Promise<Resolution>): Promise<Resolution> {
    const first = await ipv4;
    if (first.kind === "failed") return merged([first, await ipv6]);
    const isInTime = await settlesWithin(ipv6, IPV6_DELAY_MS, this.#clock);
    return merged(isInTime ? [first, await ipv6] : [first]);
  }
}

const CUT_SHORT: Resolution = { kind: "failed", error: "name resolution was cut short" };

function openDns(servers: readonly string[] | undefined): DnsResolver {
  const dns = new DnsResolver({ timeout: TRY_MS, tries: TRIES, maxTimeout: TRY_MS });
  if (servers !== undefined) dns.setServers(servers);
  return dns;
}

/** The response to a query for one family; never rejects. */
function answerOf(query: Promise<readonly string[]>): Promise<Resolution> {
  return query.then(
    (addresses) =>
      addresses.length > 0
        ? { kind: "addresses", addresses }
        : { kind: "failed", error: NO_ADDRESSES },
    (reason: unknown) => ({ kind: "failed", error: toFailure(reason) }),
  );
}

function merged(answers: readonly Resolution[]): Resolution {
  const addresses = answers.flatMap((each) => (each.kind === "failed" ? [] : each.addresses));
  if (addresses.length > 0) return toResolution(addresses);
  const errors = answers.map((each) => (each.kind === "failed" ? each.error : NO_ADDRESSES));
  // An empty family explains nothing: the other family's failure is the reason.
  return {
    kind: "failed",
    error: errors.find((error) => error !== NO_ADDRESSES) ?? NO_ADDRESSES,
  };
}

function toResolution(addresses: readonly string[]): Resolution {
  const distinct = [...new Set(addresses)];
  if (distinct.length > ADDRESSES_MAX) return { kind: "failed", error: "too many addresses" };
  return { kind: "addresses", addresses: toDialOrder(distinct) };
}

const NO_ADDRESSES = "no addresses";

// The codes of c-ares, as node:dns names them.
const FAILURES: ReadonlyMap<string, string> = new Map([
  ["ENOTFOUND", "name not found"],
  ["ENODATA", NO_ADDRESSES],
  ["ETIMEOUT", "name server did not respond"],
  ["ESERVFAIL", "name server failed"],
  ["EREFUSED", "name server refused the query"],
  ["ECONNREFUSED", "name server cannot be reached"],
  ["EBADNAME", "name is not valid"],
  ["EBADRESP", "name server sent an invalid response"],
  ["ECANCELLED", "name resolution was cut short"],
]);

function toFailure(reason: unknown): string {
  return FAILURES.get(codeOf(reason) ?? "") ?? "name cannot be resolved";
}

function isLocalhost(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost");
}

function untilAborted(pending: Promise<Resolution>, signal: AbortSignal): Promise<Resolution> {
  return new Promise((resolve) => {
    const cut = (): void => resolve(CUT_SHORT);
    signal.addEventListener("abort", cut, { once: true });
    void pending.then((resolution) => {
      signal.removeEventListener("abort", cut);
      resolve(resolution);
    });
  });
}

/** Returns a function with the addresses of a host (lower case) in the hosts file, read within 100 ms of a change. */
function openHostsFile(path: string, clock: Clock): (host: string) => readonly string[] {
  const hasChanged = watchFile(path, clock);
  let names: ReadonlyMap<string, readonly string[]> = new Map();
  return (host) => {
    if (hasChanged()) names = readNames(path);
    return names.get(host) ?? [];
  };
}

// A look at the file costs 8 µs: looking every time would take a twelfth of a core at 10,000 attempts/s.
const LOOK_MS = 100;

/** Returns a function that is true at first and after a change of the file. It looks every 100 ms at most. */
function watchFile(path: string, clock: Clock): () => boolean {
  let seen: string | null = null;
  let lookAt = -Infinity;
  return () => {
    const now = clock.monotonic();
    if (now < lookAt) return false;
    lookAt = now + LOOK_MS;
    const stamp = stampOf(path);
    if (stamp === seen) return false;
    seen = stamp;
    return true;
  };
}

// Compares size and inode too: a tool that renames a new file into place may keep the old time.
function stampOf(path: string): string {
  try {
    const { mtimeNs, size, ino } = statSync(path, { bigint: true });
    return `${mtimeNs} ${size} ${ino}`;
  } catch {
    // A file that is missing or out of reach counts as empty until it appears.
    return "";
  }
}

function readNames(path: string): ReadonlyMap<string, readonly string[]> {
  const names = new Map<string, readonly string[]>();
  for (const line of readLines(path)) {
    const [address = "", ...hosts] = (line.split("#", 1)[0] ?? "").trim().split(/\s+/);
    // macOS has the line "fe80::1%lo0 localhost": an address with a zone is never dialled.
    if (isIP(address) === 0 || address.includes("%")) continue;
    for (const host of hosts.map((name) => name.toLowerCase())) {
      const others = names.get(host) ?? [];
      if (!others.includes(address)) names.set(host, [...others, address]);
    }
  }
  return names;
}

function readLines(path: string): readonly string[] {
  try {
    return readFileSync(path, "utf8").split("\n");
  } catch {
    // The file is missing, a folder or not readable: only the name servers know names then.
    return [];
  }
}

/** The owner of look-ups, which are counted together; null is the daemon's own. */
type LookUpOwner = number | null;

interface Line {
  underWay: number;
  readonly waiting: Set<() => void>;
}

// A silent name server holds each look-up for 6 s, and further concurrent look-ups would be lost on their way to another.
const UNDER_WAY_MAX = 128;
// An owner may take so many times the slots that it leaves free: 96 of 128 while it is alone.
const TIMES_LEFT = 3;

/** The owner with the fewest look-ups is next, then the longest-waiting owner: a flood delays only its sender. */
export class LookUpTurns {
  /** The owners with look-ups in progress or waiting, in the order of their last turns. */
  readonly #lines = new Map<LookUpOwner, Line>();
  #underWay = 0;

  /** Settles at this owner's turn with a function that ends it, to be called once; with null if aborted first. */
  take(owner: LookUpOwner, signal: AbortSignal): Promise<(() => void) | null> {
    if (signal.aborted) return Promise.resolve(null);
    const line = this.#lines.get(owner) ?? { underWay: 0, waiting: new Set() };
    this.#lines.set(owner, line);
    return new Promise((resolve) => {
      const begin = (): void => {
        signal.removeEventListener("abort", cut);
        resolve(() => this.#end(owner, line));
      };
      const cut = (): void => {
        line.waiting.delete(begin);
        this.#dropEmpty(owner, line);
        resolve(null);
      };
      signal.addEventListener("abort", cut, { once: true });
      line.waiting.add(begin);
      this.#beginNext();
    });
  }

  #end(owner: LookUpOwner, line: Line): void {
    this.#underWay--;
    line.underWay--;
    this.#dropEmpty(owner, line);
    this.#beginNext();
  }

  // If the owner with the fewest has no free slot, no owner has one.
  #beginNext(): void {
    for (;;) {
      const waiting = [...this.#lines].filter(([, line]) => line.waiting.size > 0);
      const least = Math.min(...waiting.map(([, line]) => line.underWay));
      const [owner, line] = waiting.find(([, each]) => each.underWay === least) ?? [];
      const [begin] = line?.waiting ?? [];
      if (owner === undefined || line === undefined || begin === undefined) return;
      if (line.underWay >= TIMES_LEFT * (UNDER_WAY_MAX - this.#underWay)) return;
      line.waiting.delete(begin);
      line.underWay++;
      this.#underWay++;
      this.#lines.delete(owner);
      this.#lines.set(owner, line);
      begin();
    }
  }

  #dropEmpty(owner: LookUpOwner, line: Line): void {
    if (line.underWay === 0 && line.waiting.size === 0) this.#lines.delete(owner);
  }
}

/** The families take turns (RFC 8305 §4), IPv4 first: if only one works, it is IPv4. Each keeps its own order. */
export function toDialOrder(addresses: readonly string[]): readonly string[] {
  const ipv4 = addresses.filter((address) => !isIpv6(address));
  const ipv6 = addresses.filter(isIpv6);
  const turns = Array.from({ length: Math.max(ipv4.length, ipv6.length) }, (_, turn) => turn);
  return turns.flatMap((turn) => [...ipv4.slice(turn, turn + 1), ...ipv6.slice(turn, turn + 1)]);
}

function isIpv6(address: string): boolean {
  return address.includes(":");
}

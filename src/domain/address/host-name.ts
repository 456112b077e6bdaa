import { type Rule, textRule } from "../rule.ts";

/** A fault of a host. `reason` is a sentence for the client, `rule` a short name for the log. */
export interface HostFault {
  readonly rule: string;
  readonly reason: string;
}

/** The most characters of a DNS name, without its final dot (RFC 1035 §2.3.4). */
export const HOST_NAME_LENGTH_MAX = 253;

/** The longest text that {@link parseHost} reads: the time for punycode grows with the square of a label's length. */
export const HOST_TEXT_LENGTH_MAX = 255;

/**
 * Reads the host of a webhook from user input: a name or an address in any spelling that a URL accepts, IPv6 with or
 * without brackets. Returns it as deliveries store it: a lower-case punycode name, or an address as in the normal form
 * of a URL, without brackets. Null for text that cannot be the host of a webhook URL.
 */
export function parseHost(text: string): string | null {
  if (text.length > HOST_TEXT_LENGTH_MAX || NOT_IN_HOST.test(text)) return null;
  const [, bracketed] = /^\[([^[\]]*)\]$/.exec(text) ?? [];
  const ipv6 = bracketed ?? (text.includes(":") ? text : null);
  if (ipv6 !== null) return urlHostname(`[${ipv6}]`)?.slice(1, -1) ?? null;
  const host = urlHostname(text);
  if (host === null || hostNameFault(host) !== null || endsInDroppedDot(text, host)) return null;
  // Punycode that changes at a second reading: URLs with it are refused.
  return urlHostname(host) === host ? host : null;
}

/** A host, as {@link parseHost} reads it, wherever it is written. */
export const HOST: Rule<string, string> = textRule({
  takes: "a host name or an address, without scheme, port or path",
  hint: "HOST",
  schema: { type: "string", maxLength: HOST_TEXT_LENGTH_MAX },
  read: parseHost,
});

/** The host of a URL with this text as its host, IPv6 in brackets; null if that is not a URL. Not judged. */
export function urlHostname(text: string): string | null {
  const url = `http://${text}/`;
  // URL.parse is missing in the oldest browsers that the dashboard supports.
  return URL.canParse(url) ? new URL(url).hostname : null;
}

/**
 * True when an IPv4 host was written with a trailing dot, which the parser drops only from numeric hosts. The dot has
 * many spellings (`.`, `%2e`, U+3002, one before a soft hyphen), so the parser is asked: with a letter after the host,
 * a trailing dot makes that letter a label of its own.
 */
export function endsInDroppedDot(written: string, hostname: string): boolean {
  if (!IPV4.test(hostname) || written === hostname) return false;
  return urlHostname(`${written}g`)?.endsWith(".g") ?? false;
}

/**
 * Judges the form of a host name in lower-case punycode: labels of 1 to 63 characters out of `a-z0-9_-`, 253 characters
 * in all. Null when it has no fault. URL parsers accept `a..b`, `a.`, `!` and `*`; none of them resolves.
 */
export function hostNameFault(name: string): HostFault | null {
  if (HOST_NAME.test(name) && name.length <= HOST_NAME_LENGTH_MAX) return null;
  const labels = name.split(".");
  if (labels.includes("")) {
    return {
      rule: "empty host label",
      reason: "The host name has an empty label: remove the double, leading or trailing dot.",
    };
  }
  if (labels.some((label) => label.length > 63)) {
    return {
      rule: "host label over 63 characters",
      reason: "The host name has a label of more than 63 characters in encoded form: shorten it.",
    };
  }
  if (name.length > HOST_NAME_LENGTH_MAX) return LONG_HOST_NAME;
  return {
    rule: "host name characters",
    reason:
      "The host name may contain only letters, digits, hyphens and underscores between its dots.",
  };
}

/** The fault of a name of more than 253 characters. */
export const LONG_HOST_NAME: HostFault = {
  rule: "host name over 253 characters",
  reason: "The host name is longer than 253 characters in encoded form: shorten it.",
};

/** The rule by which a name is local, or null. A local name means something else on every network. */
export function localNameRule(name: string): string | null {
  const dot = name.lastIndexOf(".");
  // getaddrinfo would try "kubernetes" and "metadata" in every domain of the search list.
  if (dot === -1) return name === "localhost" ? LOCALHOST : "name without a dot";
  if (name === "home.arpa" || name.endsWith(".home.arpa"))
    return "local name (.home.arpa, RFC 8375)";
  return LOCAL_DOMAINS.get(name.slice(dot + 1)) ?? null;
}

/** True when DNS takes two host names for the same: case and one final dot do not count. */
export function isSameName(name: string, other: string): boolean {
  return withoutFinalDot(name).toLowerCase() === withoutFinalDot(other).toLowerCase();
}

function withoutFinalDot(name: string): string {
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

// Characters that begin another part of a URL, an escape, or that a URL parser drops.
const NOT_IN_HOST = /[\s/\\?#@%]/;

const IPV4 = /^\d+\.\d+\.\d+\.\d+$/;

const HOST_NAME = /^(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}$/;

const LOCALHOST = "local name (localhost, RFC 6761)";

const LOCAL_DOMAINS: ReadonlyMap<string, string> = new Map([
  ["localhost", LOCALHOST],
  // From /etc/hosts of many distributions: localhost.localdomain.
  ["localdomain", "local name (.localdomain)"],
  ["local", "local name (.local, RFC 6762)"],
  // Reserved by ICANN in 2024; metadata.google.internal is one of them.
  ["internal", "local name (.internal, ICANN)"],
  ["intranet", "local name (.intranet, RFC 6762)"],
  ["private", "local name (.private, RFC 6762)"],
  ["corp", "local name (.corp, RFC 6762)"],
  ["home", "local name (.home, RFC 6762)"],
  ["lan", "local name (.lan, RFC 6762)"],
  ["onion", "local name (.onion, RFC 7686)"],
]);

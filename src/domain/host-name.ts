/**
 * What is wrong with a host. `reason` is a sentence for the client, `rule` a short name for the
 * log.
 */
export interface HostFault {
  readonly rule: string;
  readonly reason: string;
}

/** A DNS name is at most this long, without its final dot (RFC 1035 §2.3.4). */
export const HOST_NAME_LENGTH_MAX = 253;

/**
 * Judges the form of a host name in lower-case punycode: labels of 1 to 63 characters out of
 * `a-z0-9_-`, 253 in all. Null when it is in order. URL parsers let `a..b`, `a.`, `!` and `*`
 * through; none resolves.
 */
export function hostNameFault(name: string): HostFault | null {
  if (HOST_NAME.test(name) && name.length <= HOST_NAME_LENGTH_MAX) return null;
  const labels = name.split(".");
  if (labels.includes("")) {
    return {
      rule: "empty host label",
      reason: "The host name has an empty label: remove the doubled, leading or trailing dot.",
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
      "The host name may hold only letters, digits, hyphens and underscores between its dots.",
  };
}

/** The fault of a name of more than 253 characters. */
export const LONG_HOST_NAME: HostFault = {
  rule: "host name over 253 characters",
  reason: "The host name is longer than 253 characters in encoded form: shorten it.",
};

/**
 * The rule by which a name in lower-case punycode is local, or null for one of the public DNS. What
 * a public name resolves to is judged at delivery; a local name means something else on every
 * network.
 */
export function localNameRule(name: string): string | null {
  const dot = name.lastIndexOf(".");
  // getaddrinfo would try "kubernetes" and "metadata" in every domain of the search list.
  if (dot === -1) return name === "localhost" ? LOCALHOST : "name without a dot";
  if (name === "home.arpa" || name.endsWith(".home.arpa"))
    return "local name (.home.arpa, RFC 8375)";
  return LOCAL_DOMAINS.get(name.slice(dot + 1)) ?? null;
}

/** Whether two host names are the same to DNS: case and one final dot apart. */
export function isSameName(name: string, other: string): boolean {
  return withoutFinalDot(name).toLowerCase() === withoutFinalDot(other).toLowerCase();
}

function withoutFinalDot(name: string): string {
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

const HOST_NAME = /^(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}$/;

const LOCALHOST = "local name (localhost, RFC 6761)";

const LOCAL_DOMAINS: ReadonlyMap<string, string> = new Map([
  ["localhost", LOCALHOST],
  // /etc/hosts of many distributions: localhost.localdomain.
  ["localdomain", "local name (.localdomain)"],
  ["local", "local name (.local, RFC 6762)"],
  // Reserved by ICANN in 2024; metadata.google.internal lives here.
  ["internal", "local name (.internal, ICANN)"],
  ["intranet", "local name (.intranet, RFC 6762)"],
  ["private", "local name (.private, RFC 6762)"],
  ["corp", "local name (.corp, RFC 6762)"],
  ["home", "local name (.home, RFC 6762)"],
  ["lan", "local name (.lan, RFC 6762)"],
  ["onion", "local name (.onion, RFC 7686)"],
]);

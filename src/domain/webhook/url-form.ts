import { type HostFault, LONG_HOST_NAME, endsInDroppedDot } from "../address/host-name.ts";
import { hasControl } from "../text.ts";

/**
 * A URL in normal form, taken apart. `url` is a fixed point: parsing it gives the same again. It is shown, signed and
 * requested character for character, so the parts are slices of it and not rebuilt: an empty query keeps its `?`, a
 * bare host has the path `/`.
 */
export interface UrlForm {
  readonly kind: "form";
  readonly url: string;
  readonly scheme: "http" | "https";
  /** As in `url`: a lower-case punycode name, an IPv4 address, or an IPv6 address in brackets. */
  readonly hostname: string;
  readonly port: number;
  /** Host and port as in `url`, for the Host header. */
  readonly authority: string;
  /** Path and query as in `url`, for the request line. */
  readonly requestTarget: string;
}

/** Why a URL has no normal form, or breaks a rule. `reason` is one sentence for the client. */
export interface UrlFault extends HostFault {
  readonly kind: "fault";
}

/** The most bytes of a URL in normal form (webhooks.md). All of it is ASCII, so characters are bytes. */
export const URL_BYTES_MAX = 2048;

/** The most characters before normalisation, without the fragment: only dot segments and escapes get shorter. */
export const RAW_LENGTH_MAX = 8192;

/** Parses and normalises an http or https URL (webhooks.md, URL points 2 to 4), in linear time. Never throws. */
export function parseUrlForm(raw: string): UrlForm | UrlFault {
  const misfit = textFault(raw);
  if (misfit !== null) return misfit;
  const authority = rawAuthority(raw);
  if (authority === null) return NO_SCHEME;
  const refusal = authorityFault(authority);
  if (refusal !== null) return refusal;
  const parsed = URL.parse(withoutFragment(raw));
  if (parsed === null) return unparsable(authority);
  return toForm(parsed, authority);
}

/** Host and port as they are in a URL that is not yet normalised; null when it is not http or https. */
export function rawAuthority(raw: string): string | null {
  return PREFIX.exec(raw)?.[1] ?? null;
}

/** The fault in the text of a URL before any parser has touched it, or null. */
export function textFault(raw: string): UrlFault | null {
  // A parser would replace half a surrogate pair by U+FFFD: another URL than the one posted.
  if (!raw.isWellFormed()) {
    return fault(
      "malformed Unicode",
      "The URL contains half of a surrogate pair: send valid Unicode.",
    );
  }
  // A parser drops tabs and line breaks silently and trims the rest: "java\nscript" is the old trick.
  if (hasControl(raw)) {
    return fault("control character", "The URL contains a control character: remove it.");
  }
  if (raw.trim().length !== raw.length) {
    return fault("white space around the URL", "The URL has white space around it: remove it.");
  }
  const length = raw.indexOf("#") === -1 ? raw.length : raw.indexOf("#");
  return length > RAW_LENGTH_MAX ? LONG_URL : null;
}

/** The fault of a URL of more than 2048 bytes in normal form. */
export const LONG_URL: UrlFault = fault(
  "URL over 2048 bytes",
  `The URL is longer than ${URL_BYTES_MAX} bytes in encoded form: shorten it.`,
);

/** Cuts the fragment's text but keeps its `#`: without it a parser would trim a space before the fragment. */
export function withoutFragment(raw: string): string {
  const hash = raw.indexOf("#");
  return hash === -1 ? raw : raw.slice(0, hash + 1);
}

/** The normalised text of a parsed URL without its fragment and the `#`. A trailing `?` stays. */
export function hrefWithoutFragment(parsed: URL): string {
  const { href } = parsed;
  const hash = href.indexOf("#");
  return hash === -1 ? href : href.slice(0, hash);
}

const PREFIX = /^https?:\/\/([^/\\?#]*)/i;

/** Every ASCII name fits, also percent-encoded. Punycode is quadratic: 1 ms at this length, 23 ms at 4,000. */
export const RAW_AUTHORITY_LENGTH_MAX = 768;

const NO_SCHEME = fault("not http or https", "The URL must begin with http:// or https://.");
const NO_HOST = fault("no host", "The URL has no host after //: add a host.");
const CREDENTIALS = fault(
  "credentials",
  "The URL must not contain a user name or password: remove everything before the @ of its host.",
);
const PORT = fault("port", "The port of the URL must be a number from 1 to 65535.");
const HOST = fault(
  "invalid host",
  "The host of the URL is not a valid host name or address: correct it.",
);
const TRAILING_DOT = fault(
  "empty host label",
  "The host of the URL ends in a dot, an empty label: remove it.",
);

function fault(rule: string, reason: string): UrlFault {
  return { kind: "fault", rule, reason };
}

function authorityFault(authority: string): UrlFault | null {
  // A parser skips any number of slashes: http:///host would be http://host/.
  if (authority === "") return NO_HOST;
  // The text is searched, because ":@host" and "@host" parse to no credentials at all.
  if (authority.includes("@")) return CREDENTIALS;
  return authority.length > RAW_AUTHORITY_LENGTH_MAX ? { kind: "fault", ...LONG_HOST_NAME } : null;
}

function unparsable(authority: string): UrlFault {
  const [host, port] = splitPort(authority);
  if (host === "") return NO_HOST;
  const isPort = port === "" || (/^:\d*$/.test(port) && Number(port.slice(1)) <= 65_535);
  return isPort ? HOST : PORT;
}

/** Splits `host:port` before the colon of the port; the second part is empty without a port. */
export function splitPort(authority: string): readonly [host: string, port: string] {
  const colon = authority.lastIndexOf(":");
  if (colon === -1 || authority.indexOf("]", colon) !== -1) return [authority, ""];
  return [authority.slice(0, colon), authority.slice(colon)];
}

function toForm(parsed: URL, rawAuthority: string): UrlForm | UrlFault {
  const { hostname, host: authority, port: portText } = parsed;
  const url = hrefWithoutFragment(parsed);
  if (portText === "0") return PORT;
  if (url.length > URL_BYTES_MAX) return LONG_URL;
  if (endsInDroppedDot(splitPort(rawAuthority)[0], hostname)) return TRAILING_DOT;
  // Punycode that changes at a second reading would be another URL at delivery.
  if (hostname.includes("xn--") && URL.parse(url)?.href !== url) return HOST;
  const scheme = parsed.protocol === "https:" ? "https" : "http";
  return {
    kind: "form",
    url,
    scheme,
    hostname,
    port: portText === "" ? DEFAULT_PORTS[scheme] : Number(portText),
    authority,
    requestTarget: url.slice(scheme.length + "://".length + authority.length),
  };
}

const DEFAULT_PORTS = { http: 80, https: 443 } as const;

export interface PlaceholderValues {
  readonly id: string;
  readonly tag: string | null;
}

/**
 * Replaces `$id` and `$tag` by their percent-encoded values, and a missing tag by nothing, in one pass: a tag that
 * reads `$id` stays text. `%24id` is text too. Once the result is longer than any URL that is judged, the rest stays as
 * it is: 500 `$tag`s and a tag of 255 emoji would be 1.5 MB.
 */
export function substitutePlaceholders(template: string, values: PlaceholderValues): string {
  // Empty tags could shrink any length to a short URL: a template that is too long to be shown is left to be refused.
  if (withoutFragment(template).length > RAW_LENGTH_MAX) return template;
  const encoded = { $id: encodeComponent(values.id), $tag: encodeComponent(values.tag ?? "") };
  let budget = RAW_LENGTH_MAX;
  return template.replace(PLACEHOLDERS, (placeholder) => {
    const value = placeholder === "$id" ? encoded.$id : encoded.$tag;
    if (budget < 0) return placeholder;
    budget -= value.length;
    return value;
  });
}

/**
 * The normal form of a URL or of a pingback template, for showing: `$id` and `$tag` stay literal everywhere, the
 * fragment is gone, the rest is encoded as the judge encodes it. Substituting in the shown form gives the URL that is
 * requested, unless a value makes a dot segment (a tag `..`). Null for text that is no URL of ours: with control
 * characters, with white space around it, with another scheme or no host.
 */
export function encodedForm(raw: string): string | null {
  if (textFault(raw) !== null) return null;
  const head = withoutFragment(raw);
  const parts = PARTS.exec(head);
  if (parts === null) return hasPlaceholder(head) ? escapeUnsafe(beforeHash(head)) : null;
  const [, scheme = "", authority = "", rest = ""] = parts;
  if (authority === "" || authority.length > RAW_AUTHORITY_LENGTH_MAX) return null;
  // A parser keeps a placeholder in path and query, and in a plain ASCII host. Elsewhere it would take it for a bad
  // port or address, or for a part of a Punycode label.
  const parsed = isFragile(authority) ? null : URL.parse(head);
  if (parsed !== null) return hrefWithoutFragment(parsed);
  return hasPlaceholder(authority) ? encodeParts(scheme.toLowerCase(), authority, rest) : null;
}

const PLACEHOLDER = /\$(?:id|tag)/;
const PLACEHOLDERS = /\$(?:id|tag)/g;
const PARTS = /^(https?):\/\/([^/\\?#]*)(.*)$/is;
// A label may end in any of the dots that IDNA reads as one.
const DOTS = /[.\u3002\uff0e\uff61]/;

function hasPlaceholder(text: string): boolean {
  return PLACEHOLDER.test(text);
}

// encodeURIComponent leaves !'()* alone (RFC 3986 reserves them) and throws on half a surrogate pair.
function encodeComponent(value: string): string {
  return encodeURIComponent(value.toWellFormed()).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function isFragile(authority: string): boolean {
  return hasPlaceholder(authority) && /[^\x21-\x7e]|%/.test(authority);
}

function encodeParts(scheme: string, authority: string, rest: string): string | null {
  const standIn = URL.parse(`${scheme}://h${rest}`);
  if (standIn === null) return null;
  const tail = hrefWithoutFragment(standIn).slice(`${scheme}://h`.length);
  return `${scheme}://${encodeAuthority(scheme, authority)}${tail}`;
}

function encodeAuthority(scheme: string, authority: string): string {
  // Credentials are refused; they are shown to the one who posted them, and nothing in them is lower-cased.
  if (authority.includes("@")) return escapeUnsafe(authority);
  const [host, port] = splitPort(authority);
  const parsed = URL.parse(`${scheme}://h${port}/`);
  const shownPort = parsed === null ? escapeUnsafe(port) : parsed.host.slice(1);
  return host.split(DOTS).map(encodeLabel).join(".") + shownPort;
}

// A label with a placeholder cannot be Punycode before it is complete; percent-encoded it means the same.
function encodeLabel(label: string): string {
  const parsed = hasPlaceholder(label) ? null : URL.parse(`http://${label}.a/`);
  if (parsed !== null) return parsed.hostname.slice(0, -".a".length);
  return escapeUnsafe(label.toLowerCase()).replace(/%[0-9a-f]{2}/g, (hex) => hex.toUpperCase());
}

function beforeHash(text: string): string {
  return text.endsWith("#") ? text.slice(0, -1) : text;
}

/** Percent-encodes everything but visible ASCII, as UTF-8; half a surrogate pair as U+FFFD. */
export function escapeUnsafe(text: string): string {
  return text.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}

import { hrefWithoutFragment, splitPort, textFault, withoutFragment } from "./url-form.ts";
import { RAW_AUTHORITY_LENGTH_MAX, RAW_LENGTH_MAX } from "./url-form.ts";

/** The values of the placeholders in a pingback URL. */
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

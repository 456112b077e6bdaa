import {
  type KeyObject,
  createHash,
  createHmac,
  createSecretKey,
  timingSafeEqual,
} from "node:crypto";

import { KEY_PREFIX } from "../account/account.ts";
import { JSON_DEPTH_MAX, parseJsonBytes, toJsonText } from "../json/json.ts";
import { parseUrlForm, encodedForm } from "./url-form.ts";

/** The signed message: the raw body of a postback, or the full URL of a pingback as requested. */
export type SignedMessage = string | Uint8Array;

/**
 * The value of `X-Signature`: `sha256=` and the lower-case hex HMAC-SHA256 of the message, keyed with the UTF-8 bytes
 * of the secret exactly as it is shown, including `whsec_` (webhooks.md).
 */
export function signWebhook(message: SignedMessage, secret: string): string {
  return `sha256=${createHmac("sha256", keysOf(secret).shown).update(message).digest("hex")}`;
}

/** The SHA-256 of a message in lower-case hex, without a key: it is equal for equal messages. */
export function messageHash(message: SignedMessage): string {
  return createHash("sha256").update(message).digest("hex");
}

/** The message that the Standard Webhooks headers sign. A pingback has no body, so it signs an empty one. */
export interface StandardMessage {
  /** `webhook-id`: the task id and the kind. */
  readonly id: string;
  /** When this attempt is sent, in seconds since the epoch. */
  readonly timestamp: number;
  readonly body: SignedMessage;
}

/**
 * The value of `webhook-signature` by the Standard Webhooks specification: `v1,` and the Base64 HMAC-SHA256 of
 * `id.timestamp.body`, keyed with the bytes that the secret's Base64 stands for. There is one for each secret,
 * separated by a space, so that a receiver may hold either during a rotation.
 */
export function signStandardWebhook(message: StandardMessage, secrets: readonly string[]): string {
  return secrets.map((secret) => `v1,${standardHmac(message, secret)}`).join(" ");
}

function standardHmac({ id, timestamp, body }: StandardMessage, secret: string): string {
  const { decoded } = keysOf(secret);
  return createHmac("sha256", decoded).update(`${id}.${timestamp}.`).update(body).digest("base64");
}

interface SigningKeys {
  readonly shown: KeyObject;
  /** The bytes behind `whsec_`. */
  readonly decoded: KeyObject;
}

// Two signatures with keys that are there take 5 µs of 700 bytes, with keys made for each 20 (measured in one run,
// 2026-11-26). The number of accounts that may send at the same time without another key derivation; the oldest entry
// is dropped.
const KEPT_MAX = 1000;
const kept = new Map<string, SigningKeys>();

function keysOf(secret: string): SigningKeys {
  const known = kept.get(secret);
  if (known !== undefined) return known;
  const shown = createSecretKey(Buffer.from(secret));
  const decoded = createSecretKey(Buffer.from(secret.replace(/^whsec_/, ""), "base64"));
  for (const first of kept.size < KEPT_MAX ? [] : kept.keys().take(1)) kept.delete(first);
  kept.set(secret, { shown, decoded });
  return { shown, decoded };
}

/** The message that a receiver got, or thinks that it got. */
export type ReceivedMessage =
  | { readonly kind: "body"; readonly bytes: Uint8Array }
  | { readonly kind: "url"; readonly url: string };

export interface SignatureQuestion {
  readonly signature: string;
  readonly secret: string;
  readonly message: ReceivedMessage;
}

/** `reasons` are sentences, the most specific first; none of them repeats the secret or the message. */
export type SignatureVerdict =
  | { readonly kind: "valid" }
  | { readonly kind: "invalid"; readonly reasons: readonly string[] };

/** If an `X-Signature` is wrong (webhooks.md), tries the mistakes that receivers make. It compares in constant time. */
export function checkSignature(question: SignatureQuestion): SignatureVerdict {
  const { signature, secret } = question;
  const form = readSignature(signature);
  const match = form.digest === null ? null : findMatch(form.digest, question);
  if (form.fault === null && match?.length === 0) return { kind: "valid" };
  return { kind: "invalid", reasons: toReasons(form, { match, secret }) };
}

export function explainVerdict(verdict: SignatureVerdict): readonly string[] {
  if (verdict.kind === "valid") return ["The signature is valid."];
  return ["The signature is not valid.", ...verdict.reasons];
}

interface SignatureForm {
  /** A sentence, or null when it has the form of an `X-Signature`. */
  readonly fault: string | null;
  /** The digest in spite of the fault, if it can be read: 32 bytes. */
  readonly digest: Uint8Array | null;
}

const HEX_LENGTH = 64;
const DIGEST_BYTES = 32;

function readSignature(text: string): SignatureForm {
  const named = /^\s*x-signature(?:-next)?\s*:\s*(.*?)\s*$/i.exec(text)?.[1];
  if (named !== undefined) {
    const fault = "The signature includes the header's name: give only the value.";
    return { fault, digest: readSignature(named).digest };
  }
  const trimmed = text.trim();
  if (trimmed !== text) {
    const fault = "The signature has white space around it: remove it.";
    return { fault, digest: readSignature(trimmed).digest };
  }
  if (text.startsWith("v1,")) return { fault: STANDARD, digest: null };
  const algorithm = /^([a-z]+\d*)=(?=.)/i.exec(text)?.[1] ?? null;
  const value = algorithm === null ? text : text.slice(algorithm.length + 1);
  const digest = readDigest(value);
  const isBase64 = digest !== null && value.length < HEX_LENGTH;
  const fault = isBase64 ? BASE64 : (prefixFault(algorithm) ?? valueFault(value));
  return { fault, digest };
}

const STANDARD =
  "This is a webhook-signature (Standard Webhooks), which signs other bytes with another key: " +
  "take the header X-Signature, which begins with sha256=.";

const BASE64 = "The signature is Base64: X-Signature is sha256= and lower-case hex.";

function prefixFault(algorithm: string | null): string | null {
  if (algorithm === "sha256") return null;
  if (algorithm === null) {
    return "The signature lacks sha256= at its start, which is part of the value.";
  }
  if (algorithm.toLowerCase() === "sha256") {
    return "The signature begins with sha256= in another case: it is lower-case.";
  }
  return "The signature is of another algorithm: X-Signature begins with sha256=.";
}

function valueFault(value: string): string | null {
  const { length } = value;
  if (!/^[0-9A-Fa-f]*$/.test(value)) {
    return `The signature is not hex: X-Signature is sha256= and ${HEX_LENGTH} digits 0-9 a-f.`;
  }
  if (length !== HEX_LENGTH) {
    const wrong = length < HEX_LENGTH ? "cut off" : "longer than a signature";
    return `The signature has ${length} hex digits instead of ${HEX_LENGTH}: it is ${wrong}.`;
  }
  if (!/[A-F]/.test(value)) return null;
  return "The signature has upper-case hex digits: X-Signature has lower-case ones.";
}

/** 32 bytes as hex in any case, or as Base64 in either alphabet. */
function readDigest(value: string): Uint8Array | null {
  if (/^[0-9A-Fa-f]{64}$/.test(value)) return Buffer.from(value, "hex");
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(value)) return null;
  // Node reads both alphabets as one.
  const bytes = Buffer.from(value, "base64");
  return bytes.length === DIGEST_BYTES ? bytes : null;
}

/** A key or a message that might have been used, with its sentence; null for the right one. */
interface Variant<T> {
  readonly value: T;
  readonly says: string | null;
}

/** The sentences of the mistakes that explain the digest; null if none does. No two variants are alike. */
function findMatch(
  digest: Uint8Array,
  { secret, message }: Pick<SignatureQuestion, "secret" | "message">,
): readonly string[] | null {
  const texts = messageVariants(message);
  for (const key of secretVariants(secret)) {
    for (const text of texts) {
      const made = createHmac("sha256", key.value).update(text.value).digest();
      if (timingSafeEqual(made, digest))
        return [key.says, text.says].filter((each) => each !== null);
    }
  }
  return null;
}

type Bytes = string | Uint8Array;

const SECRET_PREFIX = "whsec_";

function secretVariants(secret: string): readonly Variant<Bytes>[] {
  const trimmed = secret.trim();
  const bare = trimmed.startsWith(SECRET_PREFIX) ? trimmed.slice(SECRET_PREFIX.length) : trimmed;
  return distinct<Bytes>([
    { value: secret, says: null },
    { value: trimmed, says: "The secret has white space around it: remove it." },
    {
      value: SECRET_PREFIX + bare,
      says: "The secret lacks whsec_ at its start, which is part of the key.",
    },
    {
      value: bare,
      says: "The signature was made without the whsec_ of the secret: the key is the text as shown.",
    },
    {
      value: Buffer.from(bare, "base64"),
      says:
        "The signature was made with the bytes that the secret's Base64 stands for: the key of " +
        "X-Signature is the text as shown, whsec_ included.",
    },
  ]);
}

function messageVariants(message: ReceivedMessage): readonly Variant<Bytes>[] {
  return message.kind === "body" ? bodyVariants(message.bytes) : urlVariants(message.url);
}

function bodyVariants(bytes: Uint8Array): readonly Variant<Bytes>[] {
  // One character per byte of any value, so that only the change makes a difference.
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  const variant = (text: string, says: string): Variant<Bytes> => ({
    value: Buffer.from(text, "latin1"),
    says,
  });
  return distinct<Bytes>([
    { value: bytes, says: null },
    variant(
      body.replace(/\r?\n$/, ""),
      "The body has a line break at its end that was not signed: an editor or echo added it.",
    ),
    variant(`${body}\n`, "The body lacks a line break at its end that was signed."),
    variant(
      body.replaceAll("\r\n", "\n"),
      "The body has CRLF line breaks where LF was signed: it was changed on the way.",
    ),
    variant(
      body.replaceAll(/\r?\n/g, "\r\n"),
      "The body has LF line breaks where CRLF was signed: it was changed on the way.",
    ),
    variant(
      body.replace(/^\u00ef\u00bb\u00bf/, ""),
      "The body has a byte order mark before it that was not signed.",
    ),
    ...reserialised(bytes),
  ]);
}

const RESERIALISED =
  "The signature is over the JSON parsed and written again, not over this body: sign and check the " +
  "raw bytes of the request, before any parser.";

// An input of 64 levels is below the envelope, the list of tasks, the task and its data.
const ENVELOPE_DEPTH_MAX = JSON_DEPTH_MAX + 4;

function reserialised(bytes: Uint8Array): readonly Variant<Bytes>[] {
  const parsed = parseJsonBytes(bytes, { depthMax: ENVELOPE_DEPTH_MAX });
  if (parsed.kind === "fault") return [];
  const compact = toJsonText(parsed.value);
  const plain: unknown = JSON.parse(compact);
  const written = [compact, JSON.stringify(plain)];
  const texts = [...written, JSON.stringify(plain, null, 2), ...written.flatMap(pythonForms)];
  return texts.map((text) => ({ value: text, says: RESERIALISED }));
}

/** Compact JSON as Python's `json.dumps` writes it: by default, with `ensure_ascii=False`, and with compact separators. */
function pythonForms(compact: string): readonly string[] {
  const spaced = compact.replaceAll(/"(?:[^"\\]|\\.)*"|[,:]/g, (token) =>
    token.length === 1 ? `${token} ` : token,
  );
  return [asciiOnly(spaced), spaced, asciiOnly(compact)];
}

function asciiOnly(json: string): string {
  return json.replaceAll(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function urlVariants(url: string): readonly Variant<Bytes>[] {
  const swapped = swapScheme(url);
  const [normal, swappedNormal] = [normalForm(url), normalForm(swapped)];
  const scheme = url.startsWith("https:") ? "http" : "https";
  const other = `The signature is over the URL with ${scheme}://: a proxy in front of you changed the scheme.`;
  const otherNormal = `The signature is over the normal form of the URL with ${scheme}://.`;
  const form = parseUrlForm(url);
  return distinct<Bytes>([
    { value: url, says: null },
    {
      value: withoutPort(url),
      says: "The signature is over the URL without its default port: leave the port out.",
    },
    {
      value: normal,
      says: "The URL is not in normal form: the signature is over the URL exactly as it was requested.",
    },
    { value: swapped, says: other },
    { value: withoutPort(swapped), says: other },
    { value: swappedNormal, says: otherNormal },
    { value: withoutPort(swappedNormal), says: otherNormal },
    {
      value: form.kind === "form" ? form.requestTarget : url,
      says: "The signature is over path and query only; it must be over the full URL.",
    },
  ]);
}

function swapScheme(url: string): string {
  return url.replace(/^http(s?):/i, (_scheme, s: string) => (s === "" ? "https:" : "http:"));
}

function normalForm(url: string): string {
  return encodedForm(url) ?? url;
}

// Either default port, because behind a proxy that ends TLS the port of the other scheme may be left.
function withoutPort(url: string): string {
  return url.replace(/^(https?:\/\/[^/?#]*?):(?:80|443)(?=[/?#]|$)/i, "$1");
}

/** The variants that differ from all before them: a variant that changes nothing explains nothing. */
function distinct<T extends Bytes>(variants: readonly Variant<T>[]): readonly Variant<T>[] {
  const seen = new Set<string>();
  return variants.filter(({ value }) => {
    const text = Buffer.from(value).toString("latin1");
    const isNew = !seen.has(text);
    seen.add(text);
    return isNew;
  });
}

function toReasons(
  { fault, digest }: SignatureForm,
  { match, secret }: { readonly match: readonly string[] | null; readonly secret: string },
): readonly string[] {
  const form = fault === null ? [] : [fault];
  if (match !== null) return [...form, ...match];
  return [...form, ...secretHints(secret), ...(digest === null ? [] : [NO_MATCH])];
}

const NO_MATCH =
  "The signature is of another message or by another secret: check that both belong to the same account, " +
  "that the secret was not rotated, and that the message has the exact bytes that were received.";

function secretHints(secret: string): readonly string[] {
  if (secret.startsWith(KEY_PREFIX)) {
    return ["This secret is an API key: webhooks are signed with the webhook secret, whsec_…."];
  }
  if (secret.trim().startsWith(SECRET_PREFIX)) return [];
  return ["The secret does not begin with whsec_, which is part of it."];
}

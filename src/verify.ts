/**
 * Checks the signatures of webhooks, for receivers. It imports nothing and needs only Web Crypto: it runs as it
 * stands in Node 20 or newer, Deno, Bun, browsers and workers.
 */

/** The body of a request exactly as it arrived. A text counts as its UTF-8 bytes. */
export type RawBody = string | Uint8Array | ArrayBuffer;

/** A header's value as frameworks give it. A header that is missing, or was sent twice, verifies nothing. */
export type SignatureHeader = string | readonly string[] | null | undefined;

/** A webhook secret as it is shown, `whsec_` included, or all secrets that may have signed. */
export type WebhookSecrets = string | readonly string[];

/**
 * Says whether a postback is genuine: whether `header` signs the raw body with one of the secrets. The comparison
 * takes constant time.
 *
 * `header` is `X-Signature`. While a secret is being replaced, the old secret signs that header and the new one signs
 * `X-Signature-Next`: a receiver that knows both checks only the first, a receiver that knows only the new one passes
 * the other.
 *
 * Whatever a sender may put into header and body, the answer is true or false. Rejects with a TypeError that says how
 * to fix it when no secret is given or the body was parsed before.
 */
export async function verifyPostback(
  rawBody: RawBody,
  header: SignatureHeader,
  secrets: WebhookSecrets,
): Promise<boolean> {
  const keys = readSecrets(secrets);
  const message = readBody(rawBody);
  return message !== null && isSigned(message, { header, keys });
}

/**
 * Says whether a pingback is genuine: whether `header` signs the full URL with one of the secrets. Like {@link
 * verifyPostback}, but for a URL, character for character as the sender requested it: scheme, host, path and query,
 * nothing decoded. Behind a proxy that is the public base URL followed by the request target, not the URL that the
 * proxy asked for.
 */
export async function verifyPingback(
  url: string,
  header: SignatureHeader,
  secrets: WebhookSecrets,
): Promise<boolean> {
  const keys = readSecrets(secrets);
  const message = readUrl(url);
  return message !== null && isSigned(message, { header, keys });
}

/** Bytes that nobody else owns: they cannot change while they are checked. */
type Bytes = Uint8Array<ArrayBuffer>;

interface Claim {
  readonly header: SignatureHeader;
  readonly keys: readonly Bytes[];
}

async function isSigned(message: Bytes, { header, keys }: Claim): Promise<boolean> {
  const signature = readSignature(header);
  if (signature === null) return false;
  const { subtle } = readCrypto();
  const verdicts = keys.map(async (bytes) => {
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await subtle.importKey("raw", bytes, algorithm, false, ["verify"]);
    return subtle.verify("HMAC", key, signature, message);
  });
  return (await Promise.all(verdicts)).includes(true);
}

/** The 32 bytes of `sha256=` and lower-case hex; null for every other form. */
function readSignature(header: SignatureHeader): Bytes | null {
  if (typeof header !== "string") return null;
  const hex = /^sha256=([0-9a-f]{64})$/.exec(header)?.[1];
  if (hex === undefined) return null;
  return Uint8Array.from({ length: 32 }, (_, index) =>
    Number.parseInt(hex.slice(2 * index, 2 * index + 2), 16),
  );
}

function readSecrets(secrets: unknown): readonly Bytes[] {
  const list: readonly unknown[] = Array.isArray(secrets) ? secrets : [secrets];
  if (list.length === 0) {
    throw new TypeError("There is no secret to verify with: pass at least one.");
  }
  return list.map(readSecret);
}

function readSecret(secret: unknown): Bytes {
  if (typeof secret !== "string") {
    throw new TypeError(
      `A webhook secret has to be a text and is ${nameOf(secret)}: is its environment variable set?`,
    );
  }
  // Anybody can sign with an empty key.
  if (secret === "") throw new TypeError("A webhook secret is empty: leave it out of the list.");
  // It comes from the end of a file, or from a list that was split at its commas: no secret has this form.
  if (/^\s+whsec_|^whsec_\S*\s+$/.test(secret)) {
    throw new TypeError("A webhook secret has white space around it: trim it.");
  }
  const bytes = encode(secret);
  if (bytes !== null) return bytes;
  throw new TypeError("A webhook secret is no valid Unicode: pass it as it is shown.");
}

function readBody(body: unknown): Bytes | null {
  if (typeof body === "string") return encode(body);
  // By their tags and not by their classes: each realm, also a test runner's, has classes of its own.
  if (ArrayBuffer.isView(body)) {
    return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  }
  if (isArrayBuffer(body)) return new Uint8Array(body).slice();
  if (isNoBody(body)) return null;
  throw new TypeError(
    `The body has to be the raw bytes of the request and is ${nameOf(body)}: read them before any ` +
      "parser does (await request.arrayBuffer(), express.raw(…)); parsed and written anew, JSON " +
      "has other bytes than those that were signed.",
  );
}

function readUrl(url: unknown): Bytes | null {
  if (typeof url !== "string") {
    throw new TypeError(
      `The URL has to be a text and is ${nameOf(url)}: pass it as it was requested, not parsed.`,
    );
  }
  if (!url.startsWith("/")) return encode(url);
  throw new TypeError(
    "The URL is a path: put scheme and host before it, as they are in the pingback_url of the task.",
  );
}

/** UTF-8, or null for half of a surrogate pair, which has none: an encoder would put U+FFFD there. */
function encode(text: string): Bytes | null {
  return text.isWellFormed() ? new TextEncoder().encode(text) : null;
}

function isArrayBuffer(value: unknown): value is ArrayBuffer {
  return nameOf(value) === "ArrayBuffer";
}

// Some frameworks give this for a request without a body, Express up to version 4 the empty object. The sender
// decides whether there is one, so this is an answer and no error.
function isNoBody(body: unknown): boolean {
  if (body === undefined || body === null) return true;
  return nameOf(body) === "Object" && Object.keys(body).length === 0;
}

/** `Object`, `Promise`, `Undefined`: for people, and to tell classes of other realms. */
function nameOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

function readCrypto(): Pick<typeof globalThis.crypto, "subtle"> {
  // Missing in pages that did not come by HTTPS, which the types do not know.
  const found: Partial<typeof globalThis.crypto> | undefined = globalThis.crypto;
  const subtle = found?.subtle;
  if (subtle !== undefined) return { subtle };
  throw new TypeError(
    "There is no crypto.subtle here: run Node 20 or newer, or serve the page by HTTPS.",
  );
}

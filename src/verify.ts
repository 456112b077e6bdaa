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
 * Returns true if `header` is a signature of the raw body with one of the secrets. The comparison takes constant time.
 *
 * `header` is `X-Signature`. During a rotation, the old secret signs that header and the new secret signs
 * `X-Signature-Next`. A receiver with both secrets checks only `X-Signature`; a receiver with only the new secret
 * checks `X-Signature-Next`.
 *
 * Returns true or false for any header and body. Rejects with a TypeError if no secret is given or the body was parsed
 * before; its message has the remedy.
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

/** The URL of a receiver, and how much it reads. */
export interface ReceiverOptions {
  /**
   * The public base URL of the receiver, without a path, such as `https://receiver.example`. The signature of a
   * pingback includes it. Set it for every receiver of pingbacks. The default is the URL in the request. That URL is
   * wrong behind a proxy, and lets a client replay a pingback of another receiver of the account.
   */
  readonly baseUrl?: string | undefined;
  /** The largest body to read, in bytes; 16 MiB unless given. A larger body is not genuine. */
  readonly bodyBytesMax?: number | undefined;
}

const BODY_BYTES_MAX = 16 * 1024 ** 2;

/** The part that {@link verifyRequest} uses of a web standard Request. */
export interface WebRequest {
  readonly method: string;
  readonly url: string;
  readonly bodyUsed: boolean;
  readonly headers: { get(name: string): string | null };
  clone(): { readonly body: WebBody | null };
}

export interface WebBody {
  getReader(): WebBodyReader;
}

export interface WebBodyReader {
  read(): Promise<{ readonly value?: Uint8Array | undefined }>;
  cancel(): Promise<void>;
}

/**
 * Returns true if a web standard Request (Hono, Next.js, Deno, Bun, workers) is a genuine webhook: a POST is a
 * postback, a GET a pingback. The body can still be read afterwards. During a rotation, either signature is valid.
 *
 * Rejects with a TypeError if the body was read before or no secret is given; its message has the remedy.
 */
export async function verifyRequest(
  request: WebRequest,
  secrets: WebhookSecrets,
  { baseUrl, bodyBytesMax = BODY_BYTES_MAX }: ReceiverOptions = {},
): Promise<boolean> {
  const { method, url, headers } = request;
  const signatures = SIGNATURE_HEADERS.map((name) => headers.get(name));
  if (method === "GET") {
    const target = url.replace(/^[a-z]+:\/\/[^/?#]*/i, "");
    return passes(signatures, (header) =>
      verifyPingback(baseUrl === undefined ? url : join(baseUrl, target), header, secrets),
    );
  }
  if (method !== "POST") return isNoWebhook(secrets);
  if (request.bodyUsed) throw readBefore("verify it first, or read a request.clone()");
  const body = await readWebBody(request.clone().body, bodyBytesMax);
  if (body === null) return isNoWebhook(secrets);
  return passes(signatures, (header) => verifyPostback(body, header, secrets));
}

/** The part that {@link verifyNode} uses of an IncomingMessage of node:http. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: NodeHeaders;
  readonly socket: object;
  readonly readableEnded: boolean;
  readonly destroyed: boolean;
  on(event: string, listener: (part: Uint8Array) => void): unknown;
  off(event: string, listener: (part: Uint8Array) => void): unknown;
  resume(): unknown;
}

type NodeHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** A request whose body was read; `body` is empty if the body is missing or too long. */
export interface Verified {
  readonly genuine: boolean;
  readonly body: Uint8Array;
}

/**
 * Reads the body of a request of node:http, and returns it and whether the request is a genuine webhook: a POST is a
 * postback, a GET a pingback. For pingbacks give the `baseUrl`, unless clients reach this server without any proxy.
 *
 * Rejects with a TypeError if the body was read before or no secret is given; its message has the remedy.
 */
export async function verifyNode(
  request: NodeRequest,
  secrets: WebhookSecrets,
  options: ReceiverOptions = {},
): Promise<Verified> {
  if (request.method !== "POST") {
    return { genuine: await isServerPingback(request, secrets, options), body: new Uint8Array() };
  }
  if (request.readableEnded) throw readBefore("call verifyNode before any parser of bodies");
  const body = await readNodeBody(request, options.bodyBytesMax ?? BODY_BYTES_MAX);
  if (body === null) return { genuine: isNoWebhook(secrets), body: new Uint8Array() };
  const genuine = await passes(signaturesOf(request), (header) =>
    verifyPostback(body, header, secrets),
  );
  return { genuine, body };
}

/** The part that {@link verifyExpress} uses of a request of Express. */
export interface ExpressRequest {
  readonly method?: string | undefined;
  readonly originalUrl: string;
  readonly headers: NodeHeaders;
  readonly socket: object;
  readonly body?: unknown;
}

/**
 * Says whether a request of Express is a genuine webhook: a POST a postback, a GET a pingback. The route needs
 * `express.raw({ type: "*\/*", limit: "16mb" })` before it, and no `express.json()`. For pingbacks give the `baseUrl`,
 * unless clients reach this server without any proxy.
 *
 * Rejects with a TypeError that says how to fix it when the body was parsed or no secret is given.
 */
export async function verifyExpress(
  request: ExpressRequest,
  secrets: WebhookSecrets,
  options: Omit<ReceiverOptions, "bodyBytesMax"> = {},
): Promise<boolean> {
  const { method, originalUrl: url, headers, socket, body } = request;
  if (method !== "POST")
    return isServerPingback({ method, url, headers, socket }, secrets, options);
  // Checked by readBody, which distinguishes a parsed body from a raw one.
  return passes(signaturesOf(request), (header) =>
    verifyPostback(body as RawBody, header, secrets),
  );
}

/** While a secret is being replaced, the first is the old one's and the second the new one's. */
const SIGNATURE_HEADERS = ["x-signature", "x-signature-next"];

function signaturesOf({ headers }: { readonly headers: NodeHeaders }): readonly SignatureHeader[] {
  return SIGNATURE_HEADERS.map((name) => headers[name]);
}

async function passes(
  signatures: readonly SignatureHeader[],
  verify: (header: SignatureHeader) => Promise<boolean>,
): Promise<boolean> {
  return (await Promise.all(signatures.map(verify))).includes(true);
}

/** For a request that cannot be a webhook; mistakes of the program are still reported. */
function isNoWebhook(secrets: WebhookSecrets): false {
  readSecrets(secrets);
  return false;
}

async function isServerPingback(
  request: Pick<NodeRequest, "method" | "url" | "headers" | "socket">,
  secrets: WebhookSecrets,
  { baseUrl }: ReceiverOptions,
): Promise<boolean> {
  const { method, url = "", headers, socket } = request;
  if (method !== "GET") return isNoWebhook(secrets);
  const scheme = "encrypted" in socket ? "https" : "http";
  const host = String(headers["host"]);
  // With anything else in it the sender chooses where the host ends and the path begins.
  if (baseUrl === undefined && !HOST.test(host)) return isNoWebhook(secrets);
  const own = `${scheme}://${host}`;
  return passes(signaturesOf(request), (header) =>
    verifyPingback(join(baseUrl ?? own, url), header, secrets),
  );
}

const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

function join(baseUrl: string, target: string): string {
  return baseUrl.replace(/\/$/, "") + target;
}

function readBefore(remedy: string): TypeError {
  return new TypeError(`The body of the request was read before: ${remedy}.`);
}

/** The body; null when it is longer or breaks off. */
async function readWebBody(body: WebBody | null, bytesMax: number): Promise<Uint8Array | null> {
  const parts: Uint8Array[] = [];
  const reader = body?.getReader();
  for (let bytes = 0; reader !== undefined;) {
    // A body that breaks off is not genuine.
    const part = await reader.read().catch(() => null);
    if (part === null) return null;
    const { value } = part;
    if (value === undefined) break;
    bytes += value.length;
    parts.push(value);
    if (bytes <= bytesMax) continue;
    // It settles when the other half of the body, which is the caller's, is let go too.
    reader.cancel().catch(() => {});
    return null;
  }
  return joined(parts);
}

/** The body; null when it is longer or breaks off. */
function readNodeBody(request: NodeRequest, bytesMax: number): Promise<Uint8Array | null> {
  // It would mean nothing any more.
  if (request.destroyed) return Promise.resolve(null);
  return new Promise((resolve) => {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    const end = (body: Uint8Array | null): void => {
      request.off("data", take);
      // The rest is let go: the connection can still be answered.
      request.resume();
      resolve(body);
    };
    const take = (part: Uint8Array): void => {
      bytes += part.length;
      parts.push(part);
      if (bytes > bytesMax) end(null);
    };
    request.on("end", () => end(joined(parts)));
    request.on("error", () => end(null));
    request.on("close", () => end(null));
    request.on("data", take);
  });
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((bytes, part) => bytes + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A private copy of bytes: they cannot change while they are checked. */
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
    throw new TypeError("No webhook secret was given: pass at least one.");
  }
  return list.map(readSecret);
}

function readSecret(secret: unknown): Bytes {
  if (typeof secret !== "string") {
    throw new TypeError(
      `A webhook secret must be a string, but is ${nameOf(secret)}: is its environment variable set?`,
    );
  }
  // Any client can sign with an empty key.
  if (secret === "") throw new TypeError("A webhook secret is empty: leave it out of the list.");
  // It comes from the end of a file, or from a list that was split at its commas: no secret has this form.
  if (/^\s+whsec_|^whsec_\S*\s+$/.test(secret)) {
    throw new TypeError("A webhook secret has white space around it: trim it.");
  }
  const bytes = encode(secret);
  if (bytes !== null) return bytes;
  throw new TypeError("A webhook secret is not valid Unicode: pass it as it is shown.");
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
    `The body must be the raw bytes of the request, but is ${nameOf(body)}: read them before any ` +
      "parser does (await request.arrayBuffer(), express.raw(…)); JSON that was parsed and serialized again " +
      "has other bytes than the signed body.",
  );
}

function readUrl(url: unknown): Bytes | null {
  if (typeof url !== "string") {
    throw new TypeError(
      `The URL must be a string, but is ${nameOf(url)}: pass it as it was requested, not parsed.`,
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

/** `Object`, `Promise`, `Undefined`: for people, and to identify classes of other realms. */
function nameOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

function readCrypto(): Pick<typeof globalThis.crypto, "subtle"> {
  // Missing in pages that did not come by HTTPS, which the types do not know.
  const found: Partial<typeof globalThis.crypto> | undefined = globalThis.crypto;
  const subtle = found?.subtle;
  if (subtle !== undefined) return { subtle };
  throw new TypeError(
    "crypto.subtle is missing: use Node 20 or newer, or serve the page over HTTPS.",
  );
}

import { hash } from "node:crypto";
import { crc32 } from "node:zlib";

import { type IdGenerator, randomBytes } from "../id.ts";
import { type Rule, textRule } from "../rule.ts";
import { KEY_PREFIX, WORKER_TOKEN_PREFIX, hasKeyForm } from "./account.ts";

/** The most concurrently active keys of an account (http-api.md). */
export const ACTIVE_KEYS_MAX = 20;

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SECRET_LENGTH = 34;
const CHECKSUM_LENGTH = 6;

/** A key, or a worker's token, as it is shown once, when it is made. Only its hash is ever stored. */
export interface MintedKey {
  readonly key: string;
  readonly hash: string;
  readonly lastFour: string;
}

/**
 * Creates an API key: the prefix, 34 random base62 characters (202 bits), and 6 characters for the CRC-32 of the 34.
 * The checksum distinguishes a typo from a revoked key (http-api.md).
 */
export function newKey(): MintedKey {
  return mint(KEY_PREFIX);
}

/** Mints a worker's token: like a key, with a prefix of its own (worker-protocol.md). */
export function newWorkerToken(): MintedKey {
  return mint(WORKER_TOKEN_PREFIX);
}

export const KEY: Rule<string> = textRule({
  takes: `a key as the daemon makes them: ${KEY_PREFIX} and 40 letters and digits, of which the last six are a checksum`,
  hint: "KEY",
  schema: { type: "string" },
  isSecret: true,
  read: (text) => (isWellFormedKey(text) ? text : null),
});

export function isWellFormedKey(text: string): boolean {
  return isWellFormed(text, KEY_PREFIX);
}

export function isWellFormedWorkerToken(text: string): boolean {
  return isWellFormed(text, WORKER_TOKEN_PREFIX);
}

function mint(prefix: string): MintedKey {
  const secret = randomBase62(SECRET_LENGTH);
  return mintedKey(prefix + secret + checksum(secret));
}

function mintedKey(key: string): MintedKey {
  return { key, hash: hashKey(key), lastFour: key.slice(-4) };
}

function isWellFormed(text: string, prefix: string): boolean {
  if (!hasKeyForm(text, prefix)) return false;
  const random = text.slice(prefix.length);
  return random.slice(SECRET_LENGTH) === checksum(random.slice(0, SECRET_LENGTH));
}

/** SHA-256 in lower-case hex. A slow hash would protect nothing, since a key has 202 random bits. */
export function hashKey(key: string): string {
  return hash("sha256", key, "hex");
}

/** A new key of an account with its stored facts: only now is the key known in full. */
export interface CreatedKey {
  readonly key: string;
  readonly createdAt: number;
  readonly toStore: {
    readonly keyId: string;
    readonly hash: string;
    readonly lastFour: string;
    readonly label: string | null;
  };
}

interface KeyOrder extends Pick<CreatedKey, "createdAt"> {
  readonly label: string | null;
  readonly given?: string | undefined;
}

/** Mints a key and its id; with a `given` key only its id. Stores nothing. */
export function mintKey({ label, createdAt, given }: KeyOrder, ids: IdGenerator): CreatedKey {
  const { key, hash, lastFour } = given === undefined ? newKey() : mintedKey(given);
  return {
    key,
    createdAt,
    toStore: { keyId: newKeyId(ids.next(createdAt)), hash, lastFour, label },
  };
}

export function newKeyId(id: string): string {
  return `key_${id.replaceAll("-", "")}`;
}

// Bytes of 248 and above are drawn again: 256 is not a multiple of 62, and a remainder would favour some characters.
function randomBase62(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += ALPHABET[byte % 62];
    }
  }
  return text;
}

function checksum(secret: string): string {
  let rest = crc32(secret);
  let text = "";
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = (ALPHABET[rest % 62] ?? "") + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}

/** A newly made account: only now is its first key known in full. */
export interface MintedAccount {
  readonly account: {
    readonly login: string;
    readonly webhookSecret: string;
    readonly createdAt: number;
    readonly firstKey: CreatedKey["toStore"];
  };
  readonly first: CreatedKey;
}

interface AccountOrder {
  readonly createdAt: number;
  readonly ids: IdGenerator;
  /** Its first key and its webhook secret, where they were made elsewhere. */
  readonly key?: string | undefined;
  readonly webhookSecret?: string | undefined;
}

/** Mints an account's webhook secret and first key, unless they are given. Stores nothing. */
export function mintAccount(
  login: string,
  { createdAt, ids, key, webhookSecret = newWebhookSecret() }: AccountOrder,
): MintedAccount {
  const first = mintKey({ label: null, createdAt, given: key }, ids);
  const account = { login, webhookSecret, createdAt, firstKey: first.toStore };
  return { account, first };
}

/** `whsec_` and the Base64 of 32 random bytes (webhooks.md). */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

const SECRET = /^whsec_[0-9A-Za-z+/]{43}=$/;

export const WEBHOOK_SECRET: Rule<string> = textRule({
  takes: "whsec_ and the Base64 of 32 random bytes",
  hint: "SECRET",
  schema: { type: "string", pattern: SECRET.source },
  isSecret: true,
  read: (text) => (SECRET.test(text) ? text : null),
});

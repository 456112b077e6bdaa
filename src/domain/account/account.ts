import type { IdGenerator } from "../id.ts";
import { randomBytes } from "../random.ts";
import { textRule, type Rule } from "../rule.ts";
import { mintKey, type CreatedKey } from "./key.ts";

/** An account as the operator sees it. */
export interface Account {
  readonly login: string;
  readonly createdAt: number;
  readonly disabledAt: number | null;
}

/** A newly made account: only now is its first key known in full. */
export interface MintedAccount {
  /** The stored part of it. */
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

/** `whsec_` and the Base64 of 32 random bytes (contract §5). */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

const SECRET = /^whsec_[0-9A-Za-z+/]{43}=$/;

/** As {@link newWebhookSecret} makes them. */
export const WEBHOOK_SECRET: Rule<string> = textRule({
  takes: "whsec_ and the Base64 of 32 random bytes",
  hint: "SECRET",
  schema: { type: "string", pattern: SECRET.source },
  isSecret: true,
  read: (text) => (SECRET.test(text) ? text : null),
});

import { randomBytes } from "node:crypto";

/** An account as the operator sees it. */
export interface Account {
  readonly login: string;
  readonly createdAt: number;
  readonly disabledAt: number | null;
}

/** What a login must be, for messages. */
export const LOGIN_RULE = "1 to 64 characters of A-Z a-z 0-9 . _ @ + -";

const LOGIN = /^[A-Za-z0-9._@+-]{1,64}$/;

/** True for 1–64 of `A-Za-z0-9._@+-` (contract §2). Logins are compared exactly. */
export function isLogin(text: string): boolean {
  return LOGIN.test(text);
}

/** `whsec_` and the Base64 of 32 random bytes (contract §5). */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

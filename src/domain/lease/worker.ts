import { KEY_PREFIX, WORKER_TOKEN_PREFIX } from "../account/key.ts";

/** What a type's name must be, for messages. */
export const TYPE_NAME_RULE = "1 to 64 characters of A-Z a-z 0-9 . _ -";

/** What a worker's name must be, for messages. */
export const WORKER_NAME_RULE = `${TYPE_NAME_RULE}, and never a token or a key`;

const NAME = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * True for 1–64 of `A-Za-z0-9._-` that do not begin like a token or a key: one of those is a secret in the wrong place,
 * and a name is shown. Names are compared exactly.
 */
export function isWorkerName(text: string): boolean {
  return NAME.test(text) && !text.startsWith(WORKER_TOKEN_PREFIX) && !text.startsWith(KEY_PREFIX);
}

/** True for what may name a type of tasks. */
export function isTypeName(text: string): boolean {
  return NAME.test(text);
}

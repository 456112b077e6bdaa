import { StatusError } from "../domain/status.ts";
import type { Call } from "./operation.ts";

const LENGTH_MAX = 255;

const KEY = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;

/** How the document shows the key that {@link idempotencyKey} accepts. */
export const IDEMPOTENCY_KEY_SCHEMA = {
  type: "string",
  maxLength: LENGTH_MAX,
  pattern: KEY.source,
  examples: ["order-17"],
} as const;

/**
 * The request's `Idempotency-Key`, or null. It is compared character for character, including quotes. Throws 40000 for
 * two of them, for an empty one and for one that is not printable ASCII.
 */
export function idempotencyKey(call: Pick<Call, "headers">): string | null {
  const [key, ...others] = call.headers("idempotency-key");
  if (key === undefined) return null;
  const isKey = key.length <= LENGTH_MAX && KEY.test(key) && others.length === 0;
  if (isKey) return key;
  const detail = `Send one Idempotency-Key of 1 to ${LENGTH_MAX} printable ASCII characters.`;
  throw new StatusError(40000, { detail });
}

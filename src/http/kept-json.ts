import { isDeeperThan } from "../domain/json/json-build.ts";
import { JSON_DEPTH_MAX, toJsonText } from "../domain/json/json.ts";

export type KeptJson =
  | { readonly kind: "text"; readonly text: string }
  /** `reason` completes "it …". */
  | { readonly kind: "fault"; readonly reason: string };

/** A value of a body as the text of a result, if it may be one; what is missing is null. */
export function toKeptJson(value: unknown, bytesMax: number): KeptJson {
  const text = toJsonText(value ?? null);
  if (isDeeperThan(text, JSON_DEPTH_MAX)) {
    return { kind: "fault", reason: `is nested deeper than ${JSON_DEPTH_MAX} levels` };
  }
  if (Buffer.byteLength(text) <= bytesMax) return { kind: "text", text };
  return { kind: "fault", reason: `is over ${bytesMax} bytes, the limit of a result` };
}

import { hash } from "node:crypto";

/** A strong entity tag: the same for the same bytes, whichever release made them; a text stands for its UTF-8. */
export function entityTag(content: string | Uint8Array): string {
  return `"${hash("sha256", content, "base64url").slice(0, 27)}"`;
}

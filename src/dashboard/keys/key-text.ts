import type { Key } from "../../api/account.ts";

/** A key as one knows it again: `pbd_live_…ab12`. */
export function keyText({ prefix, last_four: lastFour }: Key): string {
  return `${prefix}…${lastFour}`;
}

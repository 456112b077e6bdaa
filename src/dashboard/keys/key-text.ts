import type { Key } from "../../api/account.ts";

/** The short form of a key, to recognize it by: `pbd_live_…ab12`. */
export function keyText({ prefix, last_four: lastFour }: Key): string {
  return `${prefix}…${lastFour}`;
}

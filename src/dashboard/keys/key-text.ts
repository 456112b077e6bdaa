import type { KeyRow } from "../shell/envelope.ts";

/** A key as one knows it again: `pbd_live_…ab12`. */
export function keyText({ prefix, last_four: lastFour }: KeyRow): string {
  return `${prefix}…${lastFour}`;
}

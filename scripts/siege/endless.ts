import type { Attack } from "./attack-job.ts";
import { hold } from "./hold.ts";

/** Sends bodies whose last byte never comes, over many connections. A connection that is cut off begins again. */
export function endless(attack: Attack): Promise<void> {
  return hold({ ...attack, request: attack.request.subarray(0, -1) });
}

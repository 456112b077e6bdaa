import type { Attack } from "./attack-job.ts";
import { hold } from "./hold.ts";

/** Bodies over many connections of which the last byte never comes. What is cut off begins again. */
export function endless(attack: Attack): Promise<void> {
  return hold({ ...attack, request: attack.request.subarray(0, -1) });
}

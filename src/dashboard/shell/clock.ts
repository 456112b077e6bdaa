import { signal } from "@preact/signals";

import { SECOND_MS } from "../../domain/clock/duration.ts";

/** How far the daemon's clock is ahead of this machine's, in milliseconds. */
let aheadMs = 0;

/** The daemon's time in milliseconds since the epoch, updated every second. */
export const now = signal(Date.now());

let isHeld = false;

setInterval(() => {
  if (!isHeld) now.value = Date.now() + aheadMs;
}, SECOND_MS);

/** Sets the daemon's time from an answer that bears it. */
export function setTime(time: string): void {
  const at = Date.parse(time);
  if (Number.isNaN(at)) return;
  aheadMs = at - Date.now();
  now.value = at;
}

/** Has the daemon's time stand still between two answers that bear it, or go again. */
export function holdTime(isStanding: boolean): void {
  isHeld = isStanding;
}

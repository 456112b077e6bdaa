import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 10;

/** Settles once `count` says that nothing is open; rejects when it says that something failed. */
export async function untilSettled(count) {
  for (;;) {
    const { open, failed } = await count();
    if (failed > 0) throw new Error(`${failed} jobs failed`);
    if (open === 0) return;
    await sleep(POLL_MS);
  }
}

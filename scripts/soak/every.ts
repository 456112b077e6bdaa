import { setTimeout as sleep } from "node:timers/promises";

/** Acts again and again, with that time before each, until the signal; settles when the last act has. */
export async function every(
  waitMs: () => number,
  { signal, act }: { readonly signal: AbortSignal; readonly act: () => Promise<void> | void },
): Promise<void> {
  while (!signal.aborted) {
    const isOver = await sleep(waitMs(), false, { signal }).catch(() => true);
    if (!isOver) await act();
  }
}

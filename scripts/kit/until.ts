import { setTimeout as sleep } from "node:timers/promises";

/** Looks again and again, and settles once it is so. Rejects, with what `fault` says then, when that takes longer. */
export async function until(
  isSo: () => boolean | Promise<boolean>,
  {
    msMax,
    everyMs = 20,
    fault,
  }: { readonly msMax: number; readonly everyMs?: number; readonly fault: () => string },
): Promise<void> {
  const deadline = performance.now() + msMax;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(fault());
    await sleep(everyMs);
  }
}

import { setTimeout as sleep } from "node:timers/promises";

/**
 * Looks again and again, and settles once it is so. Rejects, with what `fault` says then, when that takes longer than
 * `msMax`: since `progress` last changed, where it is given.
 */
export async function until(
  isSo: () => boolean | Promise<boolean>,
  how: {
    readonly msMax: number;
    readonly everyMs?: number;
    readonly progress?: () => number;
    readonly fault: () => string;
  },
): Promise<void> {
  const { msMax, everyMs = 20, progress = () => 0, fault } = how;
  let [last, since] = [progress(), performance.now()];
  while (!(await isSo())) {
    if (progress() !== last) [last, since] = [progress(), performance.now()];
    if (performance.now() - since > msMax) throw new Error(fault());
    await sleep(everyMs);
  }
}

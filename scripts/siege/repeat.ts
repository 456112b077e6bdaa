import type { Attack } from "./attack-job.ts";
import { overEachLine, pause } from "./attack-line.ts";

/** The same request over each connection, the next one after the answer, at a rate where there is one. */
export function repeat(attack: Attack): Promise<void> {
  const { job, signal, request } = attack;
  const gapMs = job.perSecond === null ? 0 : (1000 * job.connections) / job.perSecond;
  return overEachLine(attack, async (line) => {
    while (!signal.aborted) {
      const nextAt = performance.now() + gapMs;
      await line.askAndCount(request);
      if (gapMs > 0) await pause(Math.max(0, nextAt - performance.now()), signal);
    }
  });
}

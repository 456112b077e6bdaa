import type { Attack } from "./attack-job.ts";
import { AttackLine, pause, rampUp } from "./attack-line.ts";

/** The same request over each connection, the next one after the answer, at a rate where there is one. */
export async function repeat(attack: Attack): Promise<void> {
  const { job, signal, request, underWay } = attack;
  const running: Promise<void>[] = [];
  const lines: AttackLine[] = [];
  const gapMs = job.perSecond === null ? 0 : (1000 * job.connections) / job.perSecond;
  const run = async (line: AttackLine): Promise<void> => {
    while (!signal.aborted) {
      const nextAt = performance.now() + gapMs;
      await line.askAndCount(request);
      if (gapMs > 0) await pause(Math.max(0, nextAt - performance.now()), signal);
    }
  };
  signal.addEventListener("abort", () => lines.forEach((line) => line.end()));
  await rampUp(attack, (index) => {
    const line = new AttackLine(attack, index);
    lines.push(line);
    running.push(run(line));
  });
  underWay();
  await Promise.all(running);
}

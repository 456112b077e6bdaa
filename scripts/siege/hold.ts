import type { Attack } from "./attack-job.ts";
import { AttackLine, pause, rampUp } from "./attack-line.ts";

const AGAIN_MS = 1000;

/**
 * One request over each of many connections, which are then kept; what is closed is opened again. The answers are read. A
 * request that waits counts when it is answered, a connection that is kept as `held`.
 */
export async function hold(attack: Attack): Promise<void> {
  const { signal, request, tally, underWay } = attack;
  const lines: AttackLine[] = [];
  let held = 0;
  const run = async (line: AttackLine): Promise<void> => {
    while (!signal.aborted) {
      held++;
      let what = await line.ask(request);
      while (what !== "closed" && what !== "refused" && !signal.aborted) {
        tally(what);
        what = await line.next();
      }
      if (signal.aborted) return;
      held--;
      tally(what);
      await pause(AGAIN_MS, signal);
    }
  };
  const running: Promise<void>[] = [];
  signal.addEventListener("abort", () => {
    tally("held", held);
    lines.forEach((line) => line.end());
  });
  await rampUp(attack, (index) => {
    const line = new AttackLine(attack, index);
    lines.push(line);
    running.push(run(line));
  });
  underWay();
  await Promise.all(running);
}

import type { Attack } from "./attack-job.ts";
import { overEachLine, pause } from "./attack-line.ts";

const AGAIN_MS = 1000;

/**
 * Sends one request over each of many connections, and keeps them; opens a closed one again. Reads the answers. A
 * request that waits counts when it is answered, a connection that is kept counts as `held`.
 */
export function hold(attack: Attack): Promise<void> {
  const { signal, request, tally } = attack;
  let held = 0;
  signal.addEventListener("abort", () => tally("held", held));
  return overEachLine(attack, async (line) => {
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
  });
}

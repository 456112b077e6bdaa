/** Does work that is too much for one turn of the event loop: each of its steps has a turn of its own. */
import { setImmediate } from "../domain/clock/timers.ts";
export async function inTurns<Value>(work: Iterator<void, Value>): Promise<Value> {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

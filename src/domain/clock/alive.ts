/** Does work that asks again and again: timers of the clock do not keep a process alive between two questions. */
import { clearInterval, setInterval } from "./timers.ts";
export async function aliveDuring<T>(work: () => Promise<T>): Promise<T> {
  const alive = setInterval(() => {}, 1_000_000);
  try {
    return await work();
  } finally {
    clearInterval(alive);
  }
}

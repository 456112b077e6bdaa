import { requestBytes, type Attack } from "./attack-job.ts";
import { AttackLine, ended } from "./attack-line.ts";

/** Posts each body once, over one connection, and then does nothing more. */
export async function post(attack: Attack): Promise<void> {
  const { job, signal, underWay } = attack;
  const line = new AttackLine(attack, 0);
  signal.addEventListener("abort", () => line.end());
  for (const body of job.bodies) {
    if (signal.aborted) break;
    await line.askAndCount(requestBytes(job.request, body));
  }
  underWay();
  await ended(signal);
}

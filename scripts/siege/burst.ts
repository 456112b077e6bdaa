import { setTimeout as sleep } from "node:timers/promises";

import type { Attack } from "./attack-job.ts";
import { AttackLine, pause, rampUp } from "./attack-line.ts";

const LAST_BYTE_AFTER_MS = 1500;
const ANSWERED_MS_MAX = 90_000;
const NEXT_BURST_MS = 2000;

/**
 * Sends many requests whose last bytes come together, again and again until the attack ends. It waits for a burst
 * that has begun: the daemon goes on reading what has arrived, whether or not somebody waits for it.
 */
export async function burst(attack: Attack): Promise<void> {
  attack.underWay();
  while (!attack.signal.aborted) {
    await burstOnce(attack);
    await pause(NEXT_BURST_MS, attack.signal);
  }
}

async function burstOnce(attack: Attack): Promise<void> {
  const { request, tally } = attack;
  const begun: { readonly line: AttackLine; readonly answer: Promise<string> }[] = [];
  await rampUp(attack, (index) => {
    const line = new AttackLine(attack, index);
    begun.push({ line, answer: line.ask(request.subarray(0, -1)) });
  });
  await sleep(LAST_BYTE_AFTER_MS);
  const early = await Promise.all(
    begun.map(({ answer }) => Promise.race([answer, Promise.resolve(null)])),
  );
  const timeout = sleep(ANSWERED_MS_MAX, "unanswered", { ref: false });
  const answers = begun.map(({ line, answer }, index) => {
    if (early[index] === null) line.send(request.subarray(-1));
    return Promise.race([answer, timeout]);
  });
  for (const what of await Promise.all(answers)) tally(what);
  for (const { line } of begun) line.end();
}

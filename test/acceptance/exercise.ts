import { describe } from "node:test";

import { exerciseAppendix } from "./appendix.ts";
import { exerciseAuthentication } from "./authentication.ts";
import { exerciseCommands } from "./command-line.ts";
import { exerciseStart } from "./start.ts";
import { PART, type Subject } from "./subject.ts";
import { exerciseTaskFields } from "./task-fields.ts";
import { exerciseTasks } from "./tasks.ts";
import { exerciseWebhooks } from "./webhooks.ts";
import { exerciseWorkers } from "./workers.ts";

/**
 * Walks the contract row by row with a client that was written against it alone: §2, §3, §7 and §8, one test for
 * each row, named after it. Packets go to this machine alone.
 */
export function exerciseContract(subject: Subject): void {
  // Each part serves a database of its own, and most of the time is spent waiting for other processes.
  const options = { concurrency: true, ...PART };
  describe(`the contract, accepted from the ${subject.name}`, options, () => {
    exerciseAuthentication(subject);
    exerciseTasks(subject);
    exerciseTaskFields(subject);
    exerciseAppendix(subject);
    exerciseWebhooks(subject);
    exerciseWorkers(subject);
    exerciseStart(subject);
    exerciseCommands(subject);
  });
}

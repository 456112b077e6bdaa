import { describe } from "node:test";

import { exerciseAccounts } from "./account.ts";
import { exerciseCommands } from "./command-line.ts";
import { exerciseStart } from "./start.ts";
import { PART, type Subject } from "./subject.ts";
import { exerciseTasks } from "./tasks.ts";
import { exerciseWebhooks } from "./webhooks.ts";
import { exerciseWorkers } from "./workers.ts";

/**
 * Walks through the contract with a client that was written against it alone: each path of http-api.md,
 * worker-protocol.md and cli.md once. The fields and refusals of each operation are judged by test/http. Packets go to
 * this machine alone.
 */
export function exerciseContract(subject: Subject): void {
  // Each part serves a database of its own, and most of the time is spent waiting for other processes.
  const options = { concurrency: true, ...PART };
  describe(`the contract, accepted from the ${subject.name}`, options, () => {
    exerciseAccounts(subject);
    exerciseTasks(subject);
    exerciseWebhooks(subject);
    exerciseWorkers(subject);
    exerciseStart(subject);
    exerciseCommands(subject);
  });
}

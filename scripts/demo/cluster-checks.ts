import assert from "node:assert/strict";

import { z } from "zod";

import { ApiClient, type ApiAnswer } from "../kit/api-client.ts";
import { servedCall } from "../kit/careful-call.ts";
import type { NewAccount } from "../kit/daemon-process.ts";
import type { ReceivedWebhook } from "../kit/webhook-receiver.ts";
import { requireReport, requireResult } from "./file-task.ts";
import type { ForeignHmac } from "./foreign-hmac.ts";
import { wronglySigned } from "./signatures.ts";
import type { SteadyClient } from "./steady-client.ts";

/** What the cluster demo has gathered. */
export interface Gathered {
  readonly target: { readonly url: string; readonly key: string };
  readonly account: NewAccount;
  readonly webhooks: readonly ReceivedWebhook[];
  readonly hmac: ForeignHmac;
  readonly client: SteadyClient;
}

/** Looks at every task and webhook, and answers what is to be said of them. Throws at whatever is wrong. */
export async function checkAll(gathered: Gathered): Promise<string> {
  const { target, account, webhooks, hmac, client } = gathered;
  const wrong = wronglySigned(webhooks, { hmac, secret: account.webhookSecret });
  assert.deepEqual(wrong, [], `${wrong.length} webhooks are wrongly signed, ${wrong[0]} for one`);
  const count = client.posted.length;
  assert.equal(new Set(client.posted.map(({ id }) => id)).size, count, "an id was given twice");
  const runAgain = await checkTasks(gathered);
  await requireCounts(target, count);
  const repeated = await explainRepeated(gathered);
  return `
${count} tasks were acknowledged, and the account has ${count} completed ones and no others: each ended once, with what
this script finds out about the file by itself.
Requests: ${client.repeated} were refused or broken off, and sent again with the same Idempotency-Key.
Runs: ${runAgain} tasks were started again, because the daemon that ran them was gone.
Webhooks: all arrived, each postback with what task_get answers, byte for byte; ${repeated} arrived again, each explained by
an attempt that is recorded as interrupted.
Signatures: X-Signature and webhook-signature of all ${webhooks.length} webhooks verified with ${hmac.name}.`;
}

const taskRuns = z.object({ tasks: z.tuple([z.object({ runs: z.number() })]) });

/** Fetches every task and compares it with what arrived. Answers how many were run more than once. */
async function checkTasks({ target, webhooks, client }: Gathered): Promise<number> {
  const api = new ApiClient(target);
  const reports = Map.groupBy(webhooks, ({ taskId }) => taskId);
  let runAgain = 0;
  for (const { id, file } of client.posted) {
    const answer = await api.get(id);
    requireResult(answer, file);
    for (const webhook of reports.get(id) ?? []) requireReport(webhook, { answer, file });
    assert(reports.has(id), `${id}: its webhook did not arrive`);
    if (runsOf(answer) > 1) runAgain++;
    reports.delete(id);
  }
  const [unknown] = reports.keys();
  assert.equal(unknown, undefined, `${unknown} was reported, but never acknowledged`);
  return runAgain;
}

function runsOf({ text }: ApiAnswer): number {
  return taskRuns.parse(JSON.parse(text)).tasks[0].runs;
}

const userData = z.object({ tasks: z.record(z.string(), z.number()) });

/** The account's counts: as many completed tasks as were acknowledged, and nothing else. */
async function requireCounts(target: Gathered["target"], completed: number): Promise<void> {
  const { tasks } = userData.parse(await ask(target, "appendix/user_data"));
  const expected = { queued: 0, running: 0, completed, failed: 0, cancelled: 0 };
  assert.deepEqual(tasks, expected, "the account's counts differ from what was acknowledged");
}

const deliveryList = z.object({
  deliveries: z.array(
    z.object({ attempts: z.array(z.object({ outcome: z.string().nullable() })) }),
  ),
});

/** Answers how many webhooks came again. Throws where one did without an interrupted attempt. */
async function explainRepeated({ target, webhooks }: Gathered): Promise<number> {
  let repeated = 0;
  for (const [id, arrived] of Map.groupBy(webhooks, ({ taskId }) => taskId)) {
    const again = arrived.length - 1;
    if (again === 0) continue;
    const { deliveries } = deliveryList.parse(await ask(target, `tasks/deliveries/${id}`));
    const attempts = deliveries.flatMap((delivery) => delivery.attempts);
    const interrupted = attempts.filter(({ outcome }) => outcome === "interrupted").length;
    assert(again <= interrupted, `${id}: its webhook came ${again} times too often, unexplained`);
    repeated += again;
  }
  return repeated;
}

async function ask({ url, key }: Gathered["target"], path: string): Promise<unknown> {
  const answer = await servedCall(`${url}/v1/${path}`, { secret: key, method: "GET" });
  assert(answer, `${path} was not answered`);
  return JSON.parse(answer.text);
}

import assert from "node:assert/strict";

import { ApiClient, type ApiTask } from "../kit/api-client.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import type { MessageServer } from "../kit/message-server.ts";
import { sourceProgram } from "../kit/program.ts";
import { ScratchFolder } from "../kit/scratch-folder.ts";
import { until } from "../kit/until.ts";
import { openReceiver, type ReceivedWebhook } from "../kit/webhook-receiver.ts";
import { ROOT } from "../manifest.ts";
import { demoTable, type DemoRow } from "./demo-row.ts";
import {
  FILE_FACTS,
  fileTask,
  kindOf,
  requireForeignHmac,
  requireReport,
  requireResult,
  say,
} from "./file-task.ts";
import { fileFacts, sampleFiles } from "./sample-files.ts";
import { wronglySigned } from "./signatures.ts";

const TASKS = 50;
const WEBHOOKS_MS_MAX = 45_000;

/**
 * The main job on real input. A daemon on a throwaway database runs a program on 50 files of this project; half of the
 * tasks report by postback, half by pingback. Rejects, with the reason, at whatever is not as it should be.
 */
export async function oneDaemonDemo(): Promise<void> {
  const hmac = requireForeignHmac();
  using scratch = new ScratchFolder();
  const webhooks: ReceivedWebhook[] = [];
  await using receiver = await openReceiver((webhook) => webhooks.push(webhook));
  // As an operator would: a configuration, an account, `start`.
  const place = { program: sourceProgram(), folder: scratch.path };
  const settings = { allowed: `127.0.0.1:${receiver.port}`, more: FILE_FACTS };
  const file = await createDaemonFile(place, settings);
  await using daemon = await startDaemon(file);
  const client = new ApiClient({ url: daemon.url, ...file.account });
  say(`postbackd serves ${daemon.url} on a throwaway database. ${TASKS} tasks in one call …`);

  const startedAt = performance.now();
  const rows = await runTasks(sampleFiles(ROOT, TASKS), { daemon, client, receiver, webhooks });
  const seconds = (performance.now() - startedAt) / 1000;
  const wrong = wronglySigned(webhooks, { hmac, secret: file.account.webhookSecret });
  assert.deepEqual(wrong, [], `${wrong.length} webhooks are wrongly signed, ${wrong[0]} for one`);
  await daemon.stop();

  say(demoTable(rows));
  say(`
${TASKS} tasks were posted in one call, run, reported and fetched in ${seconds.toFixed(1)} s.
Results: each equals what this script finds out about the file by itself.
Postbacks: each body equals what task_get answers, byte for byte.
Signatures: X-Signature and webhook-signature of all ${webhooks.length} webhooks verified with ${hmac.name}.`);
}

interface Parts {
  readonly daemon: DaemonProcess;
  readonly client: ApiClient;
  readonly receiver: MessageServer;
  /** The arrived webhooks, in the order of their arrival. */
  readonly webhooks: readonly ReceivedWebhook[];
}

/** Posts a task for each file, waits for all webhooks and fetches all results. Throws at whatever is wrong. */
async function runTasks(files: readonly string[], parts: Parts): Promise<readonly DemoRow[]> {
  const { daemon, client, webhooks } = parts;
  await requireReady(client, 0, "before the first task");
  const posted = await postTasks(files, parts);
  await until(() => webhooks.length >= files.length, {
    msMax: WEBHOOKS_MS_MAX,
    fault: () => `Only ${webhooks.length} of ${files.length} webhooks arrived. ${daemon.log}`,
  });
  await requireReady(client, files.length, "when all tasks are finished");
  const rows: DemoRow[] = [];
  for (const [index, { id }] of posted.entries()) {
    const webhook = webhooks.find(({ taskId }) => taskId === id);
    assert(webhook, `${id}: its webhook did not arrive`);
    const answer = await client.get(id);
    const file = files[index] ?? "";
    rows.push({ task: requireResult(answer, file), facts: fileFacts(ROOT, file), webhook });
    requireReport(webhook, { answer, file });
  }
  await requireReady(client, 0, "when all results are fetched");
  assert.equal(webhooks.length, files.length, "a webhook arrived more than once");
  return rows;
}

async function requireReady(client: ApiClient, count: number, when: string): Promise<void> {
  const { tasks } = await client.ready();
  assert.equal(
    tasks.length,
    count,
    `tasks_ready lists ${tasks.length} tasks ${when}, not ${count}`,
  );
}

async function postTasks(
  files: readonly string[],
  { client, receiver }: Parts,
): Promise<readonly ApiTask[]> {
  const { tasks } = await client.post(
    files.map((file, index) => fileTask(file, { receiver, kind: kindOf(index) })),
  );
  for (const { id, status_code: code, status_message: message } of tasks) {
    assert.equal(code, 20100, `${id} was not accepted: ${code} ${message}`);
  }
  return tasks;
}

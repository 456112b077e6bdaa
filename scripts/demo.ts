import assert from "node:assert/strict";
import { join } from "node:path";

import { demoTable, type DemoRow } from "./demo/demo-row.ts";
import { findForeignHmac } from "./demo/foreign-hmac.ts";
import { fileFacts, sampleFiles } from "./demo/sample-files.ts";
import { wronglySigned } from "./demo/signatures.ts";
import { ApiClient, type ApiAnswer, type ApiTask } from "./kit/api-client.ts";
import { createDaemonFile, startDaemon } from "./kit/daemon-file.ts";
import type { DaemonProcess } from "./kit/daemon-process.ts";
import type { MessageServer } from "./kit/message-server.ts";
import { sourceProgram } from "./kit/program.ts";
import { ScratchFolder } from "./kit/scratch-folder.ts";
import { runScript } from "./kit/script.ts";
import { until } from "./kit/until.ts";
import { openReceiver, type ReceivedWebhook } from "./kit/webhook-receiver.ts";
import { ROOT } from "./manifest.ts";

/**
 * `npm run demo`: the main job on real input. A daemon on a throwaway database runs a program on 50 files of
 * this project; half of the tasks report by postback, half by pingback. Whatever is not as it should be ends
 * the demo with exit code 1 and the reason.
 */

const TASKS = 50;
const WEBHOOKS_MS_MAX = 45_000;
// JSON strings are TOML strings too.
const TYPE = `
[types.file-facts]
command = ${JSON.stringify([process.execPath, join(ROOT, "scripts", "demo", "file-facts.mjs")])}
cwd = ${JSON.stringify(ROOT)}
timeout = "30s"
concurrency = 4
`;

await runScript(demo);

async function demo(): Promise<void> {
  const hmac = findForeignHmac();
  assert(
    hmac !== null,
    "The demo verifies signatures with a program that is not its own, and finds none of python3, " +
      "openssl and perl. Install one of them, for example with 'apt-get install openssl'.",
  );
  using scratch = new ScratchFolder();
  const webhooks: ReceivedWebhook[] = [];
  await using receiver = await openReceiver((webhook) => webhooks.push(webhook));
  // As an operator would: a configuration, an account, `start`.
  const place = { program: sourceProgram(), folder: scratch.path };
  const settings = { allowed: `127.0.0.1:${receiver.port}`, more: TYPE };
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
    files.map((file, index) => ({
      type: "file-facts",
      tag: file,
      input: { file },
      ...(index % 2 === 0
        ? { postback_url: `${receiver.url}/postback` }
        : { pingback_url: `${receiver.url}/pingback?id=$id&tag=$tag` }),
    })),
  );
  for (const { id, status_code: code, status_message: message } of tasks) {
    assert.equal(code, 20100, `${id} was not accepted: ${code} ${message}`);
  }
  return tasks;
}

/** The task of a task_get, which must be completed with what this script finds out about the file itself. */
function requireResult({ tasks }: ApiAnswer, file: string): ApiTask {
  const [task] = tasks;
  assert(task, `task_get of ${file} shows no task`);
  const { id, status_code: code, status_message: message, error, result } = task;
  assert.equal(
    code,
    20000,
    `${id} (${file}) ended with ${code} ${message} ${JSON.stringify(error)}`,
  );
  assert.deepEqual(result, fileFacts(ROOT, file), `${id}: the result for ${file} is wrong`);
  return task;
}

/** A postback carries what task_get answers; a pingback names the task and its tag in its URL. */
function requireReport(
  { kind, taskId, body, signed }: ReceivedWebhook,
  { answer, file }: { readonly answer: ApiAnswer; readonly file: string },
): void {
  if (kind === "postback") {
    const isSame = body.equals(Buffer.from(answer.text));
    assert(isSame, `${taskId}: the postback's body is not what task_get answers`);
    return;
  }
  const { searchParams } = new URL(signed.toString());
  assert.equal(searchParams.get("id"), taskId, `${taskId}: $id in the pingback's URL is wrong`);
  assert.equal(searchParams.get("tag"), file, `${taskId}: $tag in the pingback's URL is wrong`);
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { verify } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import { z } from "zod";

import { Caller } from "./kit/client.ts";
import { runScript } from "./kit/command.ts";
import { createDaemonFile, sourceProgram, startDaemon } from "./kit/daemon.ts";
import { headerOf } from "./kit/http.ts";
import { markdownTable } from "./kit/measure.ts";
import { openReceiver, type ReceivedWebhook } from "./kit/receiver.ts";
import { ScratchFolder } from "./kit/scratch.ts";
import { until } from "./kit/until.ts";
import { ROOT } from "./manifest.ts";

const TASKS = 50;
const WEBHOOKS_MS_MAX = 45_000;
const FOLDERS = ["src", "test", "scripts", "docs"];

/** The type of the demo's tasks. JSON strings are TOML strings too. */
const FILE_FACTS = `
[types.file-facts]
command = ${JSON.stringify([process.execPath, join(ROOT, "scripts", "file-facts.mjs")])}
cwd = ${JSON.stringify(ROOT)}
timeout = "30s"
concurrency = 4
`;

const envelope = z.object({
  tasks: z.array(
    z.object({
      status_code: z.number(),
      created_at: z.string(),
      started_at: z.string().nullable(),
      completed_at: z.string().nullable(),
      result: z.unknown().optional(),
    }),
  ),
});

/**
 * `npm run demo`: the main job on real input. A daemon on a throwaway database runs a program on 50 files of this
 * project; half of the tasks report by postback, half by pingback. Rejects, with the reason, if a check fails.
 */
await runScript(async () => {
  using scratch = new ScratchFolder();
  const webhooks: ReceivedWebhook[] = [];
  await using receiver = await openReceiver((webhook) => webhooks.push(webhook));
  const place = { program: sourceProgram(), folder: scratch.path };
  const settings = { allowed: `127.0.0.1:${receiver.port}`, more: FILE_FACTS };
  const daemonFile = await createDaemonFile(place, settings);
  const { key, webhookSecret: secret } = daemonFile.account;
  await using daemon = await startDaemon(daemonFile);
  const client = Caller.withKey(daemon.url, key);
  say(`postbackd serves ${daemon.url} on a throwaway database. ${TASKS} tasks in one call …`);

  const startedAt = performance.now();
  await requireReady(client, 0, "before the first task");
  const files = sampleFiles(TASKS);
  const ids = await client.postAll(files.map((file, index) => taskFor(file, index, receiver.url)));
  await until(() => webhooks.length >= TASKS, {
    msMax: WEBHOOKS_MS_MAX,
    fault: () => `Only ${webhooks.length} of ${TASKS} webhooks arrived. ${daemon.log}`,
  });
  await requireReady(client, TASKS, "when all tasks are finished");
  const rows: string[][] = [];
  for (const [index, id] of ids.entries()) {
    const webhook = webhooks.find(({ taskId }) => taskId === id);
    assert(webhook, `${id}: its webhook did not arrive`);
    await requireSigned(webhook, secret);
    rows.push(await checkTask(client, webhook, files[index] ?? ""));
  }
  await requireReady(client, 0, "when all results are fetched");
  assert.equal(webhooks.length, TASKS, "a webhook arrived more than once");
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  await daemon.stop();

  const names = ["task", "file", "SHA-256", "reported by", "signature"];
  say(markdownTable([...names, "lines", "bytes", "wait ms", "run ms", "delivery ms"], rows, 5));
  say(`
${TASKS} tasks were posted in one call, run, reported and fetched in ${seconds} s.
Results: each equals what this script finds out about the file by itself.
Postbacks: each body equals what task_get answers, byte for byte.
Signatures: those of all ${TASKS} webhooks verified with @octokit/webhooks-methods and standardwebhooks.`);
});

/** Half of the tasks report by postback, half by pingback. */
function taskFor(file: string, index: number, receiverUrl: string): object {
  const webhook =
    index % 2 === 0
      ? { postback_url: `${receiverUrl}/postback` }
      : { pingback_url: `${receiverUrl}/pingback?id=$id&tag=$tag` };
  return { type: "file-facts", tag: file, input: { file }, ...webhook };
}

/** Verifies both signatures of a webhook with libraries that share no code with postbackd. */
async function requireSigned(webhook: ReceivedWebhook, secret: string): Promise<void> {
  const { taskId, head, body, signed, signature } = webhook;
  const isVerified = await verify(secret, signed.toString(), signature);
  assert(isVerified, `${taskId}: X-Signature is wrong`);
  const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
  const headers = Object.fromEntries(names.map((name) => [name, headerOf(head, name) ?? ""]));
  new Webhook(secret).verify(body, headers);
}

/** Compares a task and its webhook with the file; returns its row of the table. */
async function checkTask(
  client: Caller,
  { kind, taskId: id, body, signed, receivedAt }: ReceivedWebhook,
  file: string,
): Promise<string[]> {
  const text = await client.done(client.get(`/v1/tasks/task_get/${id}`));
  const [task] = envelope.parse(JSON.parse(text)).tasks;
  assert(task, `task_get of ${file} shows no task`);
  const facts = factsOf(file);
  assert.equal(task.status_code, 20000, `${id} (${file}): ${text}`);
  assert.deepEqual(task.result, facts, `${id}: the result for ${file} is wrong`);
  if (kind === "postback") {
    assert(
      body.equals(Buffer.from(text)),
      `${id}: the postback's body is not what task_get answers`,
    );
  } else {
    const { searchParams } = new URL(signed.toString());
    assert.equal(searchParams.get("id"), id, `${id}: $id in the pingback's URL is wrong`);
    assert.equal(searchParams.get("tag"), file, `${id}: $tag in the pingback's URL is wrong`);
  }
  const times = [task.created_at, task.started_at, task.completed_at].map((at) =>
    Date.parse(at ?? ""),
  );
  const [created = 0, started = 0, completed = 0] = times;
  const { sha256, lines, bytes } = facts;
  const shown = file.length <= 36 ? file : `…${file.slice(-35)}`;
  const figures = [lines, bytes, started - created, completed - started, receivedAt - completed];
  return [
    `…${id.slice(-6)}`,
    shown,
    `${sha256.slice(0, 12)}…`,
    kind,
    "verified",
    ...figures.map(String),
  ];
}

async function requireReady(client: Caller, count: number, when: string): Promise<void> {
  const text = await client.done(client.get("/v1/tasks/tasks_ready"));
  const { length } = envelope.parse(JSON.parse(text)).tasks;
  assert.equal(length, count, `tasks_ready lists ${length} tasks ${when}, not ${count}`);
}

/** `count` files of the project, spread evenly. */
function sampleFiles(count: number): readonly string[] {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1)),
  ).toSorted();
  return Array.from(
    { length: count },
    (_, i) => files[Math.floor((i * files.length) / count)] ?? "",
  );
}

/** The facts of a file, found out in another way than the tasks do. */
function factsOf(file: string) {
  const content = readFileSync(join(ROOT, file));
  return {
    file,
    sha256: createHash("sha256").update(content).digest("hex"),
    lines: content.toString("latin1").split("\n").length - 1,
    bytes: content.length,
  };
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

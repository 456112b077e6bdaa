import assert from "node:assert/strict";
import { join } from "node:path";

import type { ApiAnswer, ApiTask } from "../kit/api-client.ts";
import type { MessageServer } from "../kit/message-server.ts";
import type { ReceivedWebhook } from "../kit/webhook-receiver.ts";
import { ROOT } from "../manifest.ts";
import { findForeignHmac, type ForeignHmac } from "./foreign-hmac.ts";
import { fileFacts } from "./sample-files.ts";

/** The type of the demo's tasks, for a `postbackd.toml`. JSON strings are TOML strings too. */
export const FILE_FACTS = `
[types.file-facts]
command = ${JSON.stringify([process.execPath, join(ROOT, "scripts", "demo", "file-facts.mjs")])}
cwd = ${JSON.stringify(ROOT)}
timeout = "30s"
concurrency = 4
`;

/** Throws, with what to install, where no program is found. */
export function requireForeignHmac(): ForeignHmac {
  const hmac = findForeignHmac();
  assert(
    hmac !== null,
    "The demo verifies signatures with a program that is not its own, and finds none of python3, " +
      "openssl and perl. Install one of them, for example with 'apt-get install openssl'.",
  );
  return hmac;
}

/** Half of the tasks report by postback, half by pingback. */
export function kindOf(index: number): ReceivedWebhook["kind"] {
  return index % 2 === 0 ? "postback" : "pingback";
}

/** What is posted for a file. */
export function fileTask(
  file: string,
  { receiver, kind }: { receiver: MessageServer; kind: ReceivedWebhook["kind"] },
): object {
  const webhook =
    kind === "postback"
      ? { postback_url: `${receiver.url}/postback` }
      : { pingback_url: `${receiver.url}/pingback?id=$id&tag=$tag` };
  return { type: "file-facts", tag: file, input: { file }, ...webhook };
}

/** The task of a task_get, which must be completed with what this script finds out about the file itself. */
export function requireResult({ tasks }: ApiAnswer, file: string): ApiTask {
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
export function requireReport(
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

export function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

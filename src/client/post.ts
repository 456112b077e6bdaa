import type { Answers } from "./api.ts";
import { underKey } from "./error.ts";
import { JsonText, type CallOptions, type Transport } from "./transport.ts";

export interface PostOptions extends CallOptions {
  /**
   * Names this call: the same call with the same key within 24 hours makes no second task, also after the program was
   * started anew. One of its own unless given. 1 to 255 printable ASCII characters, of `postMany` 1 to 240.
   */
  readonly idempotencyKey?: string | undefined;
}

/** A task in the answer to task_post. */
export type PostedTask = Answers["POST /v1/tasks/task_post"]["tasks"][number];

/** Posts one task. */
export async function postOne(
  transport: Transport,
  task: object,
  options: PostOptions,
): Promise<PostedTask> {
  const { idempotencyKey = newKey(), signal } = options;
  const [posted] = await postPage(transport, JSON.stringify(task), { idempotencyKey, signal });
  if (posted === undefined) throw new TypeError("The daemon answered without the task.");
  return posted;
}

/**
 * Posts any number of tasks, in pages of what the daemon takes at once, each with a key of its own: `KEY/1`, `KEY/2`.
 * One page after the other, so that the tasks are in the daemon in their order.
 */
export function postAll(
  transport: Transport,
  tasks: Iterable<object> | AsyncIterable<object>,
  { idempotencyKey = newKey(), signal }: PostOptions,
): Promise<readonly PostedTask[]> {
  // An error names the key of the whole call, not that of its page.
  return underKey(idempotencyKey, async () => {
    const posted: PostedTask[] = [];
    let pages = 0;
    const { limits } = await transport.call("GET /v1/appendix/user_data", { signal });
    for await (const page of pagesOf(tasks, limits)) {
      pages++;
      const options = { idempotencyKey: `${idempotencyKey}/${pages}`, signal };
      posted.push(...(await postPage(transport, `[${page.join(",")}]`, options)));
    }
    return posted;
  });
}

function postPage(
  transport: Transport,
  text: string,
  { idempotencyKey, signal }: PostOptions & { readonly idempotencyKey: string },
): Promise<readonly PostedTask[]> {
  return underKey(idempotencyKey, async () => {
    const { tasks } = await transport.call("POST /v1/tasks/task_post", {
      body: new JsonText(text),
      headers: { "Idempotency-Key": idempotencyKey },
      isRepeatable: true,
      signal,
    });
    return tasks;
  });
}

interface PageLimits {
  readonly tasks_per_post: number;
  readonly body_bytes: number;
}

/** The tasks as JSON, in pages that the daemon takes; a task that is too large for any is alone, to be refused. */
async function* pagesOf(
  tasks: Iterable<object> | AsyncIterable<object>,
  { tasks_per_post: tasksMax, body_bytes: bytesMax }: PageLimits,
): AsyncGenerator<readonly string[], void, undefined> {
  let page: string[] = [];
  // The brackets; each task has a comma or takes the place of the last one.
  let bytes = 1;
  for await (const task of tasks) {
    const text = JSON.stringify(task);
    const added = new TextEncoder().encode(text).length + 1;
    if (page.length > 0 && (page.length === tasksMax || bytes + added > bytesMax)) {
      yield page;
      page = [];
      bytes = 1;
    }
    page.push(text);
    bytes += added;
  }
  if (page.length > 0) yield page;
}

/** 128 bits at random, as hex: `crypto.randomUUID` is missing in pages that did not come by HTTPS. */
export function newKey(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

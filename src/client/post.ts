import type { Answers } from "./api.ts";
import { PostbackdError, underKey } from "./settings.ts";
import { JsonText, type Transport, isObject, isTask, listOf } from "./transport.ts";
import type { PostOptions } from "./types.ts";

/** A task in the answer to task_post. */
export type PostedTask = Answers["POST /v1/tasks/task_post"]["tasks"][number];

/** The one task of an answer. */
export function onlyTask<Item>({ tasks: [task] }: { readonly tasks: readonly Item[] }): Item {
  if (task === undefined)
    throw new PostbackdError("The response of the daemon does not have the task.");
  return task;
}

/** Posts one task. */
export async function postOne(
  transport: Transport,
  task: object,
  { idempotencyKey = newKey(), signal }: PostOptions,
): Promise<PostedTask> {
  const page = [toText(task)];
  return onlyTask({ tasks: await postPage(transport, page, { idempotencyKey, signal }) });
}

/**
 * Posts any number of tasks, in pages that the daemon takes, each with a key of its own: `KEY/1`, `KEY/2`. One page
 * after the other, so that the daemon has the tasks in their order.
 *
 * Pages are split in one of a few fixed ways. A 42200 means that the page's key was used for another split, and that
 * nothing was posted. So a repeat after a change of the daemon's limits finds the split of the earlier call.
 */
export function postAll(
  transport: Transport,
  tasks: Iterable<object> | AsyncIterable<object>,
  { idempotencyKey = newKey(), signal }: PostOptions,
): Promise<readonly PostedTask[]> {
  // An error names the key of the whole call, not the key of its page.
  return underKey(idempotencyKey, async () => {
    const posted: PostedTask[] = [];
    const { limits } = await transport.call("GET /v1/appendix/user_data", {
      shape: { limits: isObject },
      signal,
    });
    const texts = textsOf(tasks);
    try {
      const ahead = new TasksAhead(texts);
      let splits = splitsFor(limits);
      for (let number = 1; await ahead.isMore(); number++) {
        const options = { idempotencyKey: `${idempotencyKey}/${number}`, signal };
        const added = await postNext(transport, { ahead, splits }, options);
        posted.push(...added);
        splits = splits.filter((split) => ahead.lengthOf(split) === added.length);
        ahead.drop(added.length);
      }
    } finally {
      await texts.return();
    }
    return posted;
  });
}

/** Posts the next page, split as it was before if its key was used before. */
async function postNext(
  transport: Transport,
  { ahead, splits }: { readonly ahead: TasksAhead; readonly splits: readonly Split[] },
  options: PageOptions,
): Promise<readonly PostedTask[]> {
  const tried = new Set<number>();
  let conflict: unknown;
  for (const split of splits) {
    const page = await ahead.page(split);
    if (tried.has(page.length)) continue;
    tried.add(page.length);
    try {
      return await postPage(transport, page, options);
    } catch (error) {
      const code = error instanceof PostbackdError ? error.code : null;
      const isSplitOtherwise = code === 42200 || (conflict !== undefined && isTooLarge(code));
      if (!isSplitOtherwise) throw error;
      conflict ??= error;
    }
  }
  throw conflict;
}

function isTooLarge(code: number | null): boolean {
  return code === 41300 || code === 40006;
}

type PageOptions = PostOptions & { readonly idempotencyKey: string };

function postPage(
  transport: Transport,
  page: readonly TaskText[],
  { idempotencyKey, signal }: PageOptions,
): Promise<readonly PostedTask[]> {
  return underKey(idempotencyKey, async () => {
    const { tasks } = await transport.call("POST /v1/tasks/task_post", {
      body: new JsonText(`[${page.map(({ text }) => text).join(",")}]`),
      headers: { "Idempotency-Key": idempotencyKey },
      isRepeatable: true,
      shape: { tasks: listOf(isTask, page.length) },
      signal,
    });
    return tasks;
  });
}

/** The most tasks and bytes of a page. */
interface Split {
  readonly tasks: number;
  readonly bytes: number;
}

const SPLITS: readonly Split[] = [1000, 100, 10, 1].flatMap((tasks) =>
  [1024, 256, 64, 16, 4, 1].map((kib) => ({ tasks, bytes: kib * 1024 })),
);

/** All splits: those that the daemon takes, the largest first, then the others. */
function splitsFor(limits: Answers["GET /v1/appendix/user_data"]["limits"]): readonly Split[] {
  const isTaken = ({ tasks, bytes }: Split): boolean =>
    tasks <= limits.tasks_per_post && bytes <= limits.body_bytes;
  return [...SPLITS.filter(isTaken), ...SPLITS.filter((split) => !isTaken(split))];
}

/** A task as JSON. */
interface TaskText {
  readonly text: string;
  readonly bytes: number;
}

function toText(task: object): TaskText {
  const text = JSON.stringify(task);
  return { text, bytes: new TextEncoder().encode(text).length };
}

async function* textsOf(
  tasks: Iterable<object> | AsyncIterable<object>,
): AsyncGenerator<TaskText, void, undefined> {
  for await (const task of tasks) yield toText(task);
}

/** The tasks that were read from the caller and are not posted yet. */
class TasksAhead {
  readonly #source: AsyncGenerator<TaskText, void, undefined>;
  readonly #read: TaskText[] = [];

  constructor(source: AsyncGenerator<TaskText, void, undefined>) {
    this.#source = source;
  }

  async isMore(): Promise<boolean> {
    return this.#read.length > 0 || this.#readNext();
  }

  /** The next page, after which one more task was read if there is one. */
  async page(split: Split): Promise<readonly TaskText[]> {
    while (this.lengthOf(split) === this.#read.length && (await this.#readNext()));
    return this.#read.slice(0, this.lengthOf(split));
  }

  /** How many of the tasks that were read go into one page; a task that is too large for any page goes alone. */
  lengthOf({ tasks, bytes }: Split): number {
    // The brackets; each task has a comma or takes the place of the last one.
    let sum = 1;
    const end = this.#read.findIndex((task, index) => {
      sum += task.bytes + 1;
      return index > 0 && (index === tasks || sum > bytes);
    });
    return end < 0 ? this.#read.length : end;
  }

  drop(count: number): void {
    this.#read.splice(0, count);
  }

  async #readNext(): Promise<boolean> {
    const { done, value } = await this.#source.next();
    if (done === true) return false;
    this.#read.push(value);
    return true;
  }
}

/** 128 bits at random, as hex: `crypto.randomUUID` is missing in pages that did not come by HTTPS. */
export function newKey(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

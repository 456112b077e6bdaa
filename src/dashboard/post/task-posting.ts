import { useRef } from "preact/hooks";

import { call, JsonText } from "../shell/api.ts";

/** A task that is to be posted. */
export interface TaskPost {
  /** The body of task_post, with this one task. */
  readonly text: string;
  /** The account that the operator posts for; null where the reader posts for the own one. */
  readonly account: string | null;
}

/** The answer about a posted task. */
export type PostedTask = Awaited<ReturnType<typeof post>>;

/**
 * Returns what posts a task. A post that was not answered is repeated with the same idempotency key, so it makes no
 * second task. Throws an ApiError.
 */
export function useTaskPosting(): (task: TaskPost) => Promise<PostedTask> {
  const unanswered = useRef({ text: "", key: "" });
  return async (task) => {
    if (unanswered.current.text !== task.text) {
      unanswered.current = { text: task.text, key: newIdempotencyKey() };
    }
    const posted = await post(task, unanswered.current.key);
    unanswered.current = { text: "", key: "" };
    return posted;
  };
}

async function post({ text, account }: TaskPost, idempotencyKey: string) {
  const body = new JsonText(text);
  const envelope = await call("POST /v1/tasks/task_post", { body, account, idempotencyKey });
  const [task] = envelope.tasks;
  if (task === undefined) throw new Error("The daemon answered without the task.");
  return task;
}

// `crypto.randomUUID` is missing where the page did not come over HTTPS or from this machine.
function newIdempotencyKey(): string {
  return crypto.getRandomValues(new BigUint64Array(2)).join("-");
}

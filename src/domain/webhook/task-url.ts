import type { Task } from "../task/task.ts";

/** The webhook URLs that a task was posted with, in encoded form, and the tag that goes into a pingback's. */
export interface PostedUrls {
  readonly postback: string | null;
  /** With its placeholders. */
  readonly pingback: string | null;
  readonly tag: string | null;
}

/** Reads back what was posted of a task's webhooks. */
export function postedUrls({ dataText }: Pick<Task, "dataText">): PostedUrls {
  // An object's JSON text, made by task_post; what a refused task was posted with may be of any type.
  const data = JSON.parse(dataText) as Readonly<Record<string, unknown>>;
  return {
    postback: textOrNull(data["postback_url"]),
    pingback: textOrNull(data["pingback_url"]),
    tag: textOrNull(data["tag"]),
  };
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

import type { Task } from "../task/task.ts";

/** The webhook URLs with which a task was posted, in encoded form, and the tag for its pingback. */
export interface PostedUrls {
  readonly postback: string | null;
  /** With its placeholders. */
  readonly pingback: string | null;
  readonly tag: string | null;
}

export function postedUrls({ dataText }: Pick<Task, "dataText">): PostedUrls {
  // An object's JSON text, made by task_post; the fields of a refused task may have any type.
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

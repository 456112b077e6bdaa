import type { PostedTask } from "../../api/task.ts";

/** A task in a form, each field as it is written there; an empty one is left out of the post. */
export interface TaskDraft {
  readonly type: string;
  /** JSON. */
  readonly input: string;
  readonly postback_url: string;
  readonly pingback_url: string;
  readonly tag: string;
  readonly marketplace: string;
  readonly priority: string;
  /** In the form of a `datetime-local` field, in the reader's own zone. */
  readonly start_at: string;
}

export type DraftField = keyof TaskDraft;

export const EMPTY_DRAFT: TaskDraft = {
  type: "",
  input: "",
  postback_url: "",
  pingback_url: "",
  tag: "",
  marketplace: "",
  priority: "0",
  start_at: "",
} satisfies Record<keyof PostedTask, string>;

/** The draft of a task that is posted again: everything but when it was to start. */
export function draftOf(data: Readonly<Record<string, unknown>>, input: string): TaskDraft {
  const draft = { ...EMPTY_DRAFT, input };
  for (const name of ["type", "postback_url", "pingback_url", "tag", "marketplace"] as const) {
    const value = data[name];
    if (typeof value === "string") draft[name] = value;
  }
  const priority = data["priority"];
  return Number.isFinite(priority) ? { ...draft, priority: String(priority) } : draft;
}

/** The draft as the body of task_post. The input is in it as it was written: its numbers keep every digit. */
export function postedText({ input, priority, start_at: startAt, ...texts }: TaskDraft): string {
  const members = Object.entries(texts).flatMap(([name, text]) =>
    text === "" ? [] : [`"${name}":${JSON.stringify(text)}`],
  );
  if (startAt !== "") members.push(`"start_at":"${new Date(startAt).toISOString()}"`);
  if (priority !== EMPTY_DRAFT.priority) members.push(`"priority":${priority}`);
  if (input.trim() !== "") members.push(`"input":${input}`);
  return `{${members.join(",")}}`;
}

/** What a request to task_post is made of. */
export interface TaskPostRequest {
  readonly key: string;
  /** How many tasks the request posts, all alike. */
  readonly tasks: number;
  readonly type: string;
  readonly postbackUrl?: string;
  readonly pingbackUrl?: string;
  readonly tag?: string;
}

/** The length of a task's input in bytes, as JSON text: what the budgets speak of. */
export const INPUT_BYTES = 300;

/** A whole task_post request over a kept connection, as it goes over the wire. */
export function taskPostRequest(request: TaskPostRequest): string {
  const { key, tasks, type, tag, postbackUrl, pingbackUrl } = request;
  const task = {
    ...{ type, ...(tag && { tag }), ...(postbackUrl && { postback_url: postbackUrl }) },
    ...(pingbackUrl && { pingback_url: pingbackUrl }),
    input: benchInput(),
  };
  const body = JSON.stringify(Array.from({ length: tasks }, () => task));
  return [
    "POST /v1/tasks/task_post HTTP/1.1",
    "Host: 127.0.0.1",
    `Authorization: Bearer ${key}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "",
    body,
  ].join("\r\n");
}

/** An input of {@link INPUT_BYTES}: ASCII only, so that characters are bytes. */
export function benchInput(): Readonly<Record<string, unknown>> {
  const input = { source: "s3://uploads/2026/clip.mov", width: 1280, height: 720, note: "" };
  return { ...input, note: "n".repeat(INPUT_BYTES - JSON.stringify(input).length) };
}

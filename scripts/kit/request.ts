import { z } from "zod";

import type { HttpMessage } from "./http-messages.ts";

export const JSON_TYPE = "Content-Type: application/json";

/** The parts of a request that it need not have. */
export interface RequestParts {
  readonly secret?: string | undefined;
  /** Header lines of its own. */
  readonly headers?: readonly string[] | undefined;
  /** JSON. */
  readonly body?: string | undefined;
}

/** A request over a kept connection, as it goes over the wire: `line` is its method and path. */
export function requestText(
  line: string,
  { secret, headers = [], body }: RequestParts = {},
): string {
  const head = [`${line} HTTP/1.1`, "Host: 127.0.0.1", ...headers];
  if (secret !== undefined) head.push(`Authorization: Bearer ${secret}`);
  if (body === undefined) return `${head.join("\r\n")}\r\n\r\n`;
  head.push(JSON_TYPE, `Content-Length: ${Buffer.byteLength(body)}`);
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

const OK = "HTTP/1.1 200";

/** The body of an answer. Throws, with the answer's beginning, unless it is 200. */
export function servedText(answer: HttpMessage): string {
  if (answer.head.startsWith(OK)) return answer.body.toString("utf8");
  throw refusalOf(answer);
}

/** Throws unless the answer to a task_post is 200 and takes every task. */
export function requireTaken(answer: HttpMessage): void {
  const isTaken = answer.head.startsWith(OK) && answer.body.includes('"tasks_error":0');
  if (!isTaken) throw refusalOf(answer);
}

function refusalOf({ head, body }: HttpMessage): Error {
  const excerpt = body.toString("utf8", 0, 500);
  return new Error(`the server answered ${head.split("\r\n", 1)[0]}: ${excerpt}`);
}

const postedTasks = z.object({
  tasks: z.array(z.object({ id: z.string(), status_code: z.number() })),
});

/** The ids in the answer to a task_post. Throws when a task was refused. */
export function acceptedIds(text: string): readonly string[] {
  const { tasks } = postedTasks.parse(JSON.parse(text));
  const refused = tasks.some(({ status_code: code }) => code !== 20100);
  if (refused) throw new Error(`task_post refused a task: ${text.slice(0, 500)}`);
  return tasks.map(({ id }) => id);
}

const claimAnswer = z.object({
  tasks: z.array(z.object({ id: z.string(), lease_id: z.string() })),
});

/** A task that a worker was given. */
export type LeasedTask = Readonly<z.infer<typeof claimAnswer>["tasks"][number]>;

/** The tasks in the answer to a claim. */
export function claimedTasks(text: string): readonly LeasedTask[] {
  return claimAnswer.parse(JSON.parse(text)).tasks;
}

/** The parts of a request to task_post. */
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

/** A whole task_post request. */
export function taskPostRequest(request: TaskPostRequest): string {
  const { key, tasks, type, tag, postbackUrl, pingbackUrl } = request;
  const task = {
    type,
    ...(tag && { tag }),
    ...(postbackUrl && { postback_url: postbackUrl }),
    ...(pingbackUrl && { pingback_url: pingbackUrl }),
    input: benchInput(),
  };
  const body = JSON.stringify(Array.from({ length: tasks }, () => task));
  return requestText("POST /v1/tasks/task_post", { secret: key, body });
}

/** An input of {@link INPUT_BYTES}: ASCII only, so that characters are bytes. */
export function benchInput(): Readonly<Record<string, unknown>> {
  const input = { source: "s3://uploads/2026/clip.mov", width: 1280, height: 720, note: "" };
  return { ...input, note: "n".repeat(INPUT_BYTES - JSON.stringify(input).length) };
}

import { z } from "zod";

import { servedCall, type CarefulRequest } from "./careful-call.ts";

const task = z.object({
  id: z.string(),
  status_code: z.number(),
  status_message: z.string(),
  state: z.string(),
  created_at: z.string(),
  started_at: z.string().nullable(),
  completed_at: z.string().nullable(),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
});

const envelope = z.object({
  status_code: z.number(),
  status_message: z.string(),
  tasks_count: z.number(),
  tasks_error: z.number(),
  tasks: z.array(task),
});

/** A task as the API shows it; `result` and `error` are absent in listings. */
export type ApiTask = Readonly<z.infer<typeof task>>;

/** An answer of the API: the body as it came, and its tasks. */
export interface ApiAnswer {
  readonly text: string;
  readonly tasks: readonly ApiTask[];
}

/** A small client of postbackd's API, as a customer would write it. Every call rejects unless it is answered 200. */
export class ApiClient {
  readonly #url: string;
  readonly #key: string;

  constructor({ url, key }: { readonly url: string; readonly key: string }) {
    this.#url = url;
    this.#key = key;
  }

  post(tasks: readonly object[]): Promise<ApiAnswer> {
    return this.#call("task_post", { body: JSON.stringify(tasks) });
  }

  /** Fetches a task and, once it is finished, takes it out of {@link ready}. */
  get(id: string): Promise<ApiAnswer> {
    return this.#call(`task_get/${id}`, { method: "GET" });
  }

  /** Finished tasks that were not fetched yet. */
  ready(): Promise<ApiAnswer> {
    return this.#call("tasks_ready", { method: "GET" });
  }

  async #call(operation: string, request: Omit<CarefulRequest, "secret">): Promise<ApiAnswer> {
    const url = `${this.#url}/v1/tasks/${operation}`;
    const answer = await servedCall(url, { ...request, secret: this.#key });
    if (answer === null) throw new Error(`${operation} was not answered`);
    const { text } = answer;
    return { text, tasks: envelope.parse(JSON.parse(text)).tasks };
  }
}

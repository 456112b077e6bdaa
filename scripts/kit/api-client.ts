import { z } from "zod";

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
  readonly #authorization: string;

  constructor({ url, login, key }: { readonly url: string; login: string; key: string }) {
    this.#url = url;
    this.#authorization = `Basic ${Buffer.from(`${login}:${key}`).toString("base64")}`;
  }

  post(tasks: readonly object[]): Promise<ApiAnswer> {
    return this.#call("task_post", { method: "POST", body: JSON.stringify(tasks) });
  }

  /** Fetches a task and, once it is finished, takes it out of {@link ready}. */
  get(id: string): Promise<ApiAnswer> {
    return this.#call(`task_get/${id}`, { method: "GET" });
  }

  /** Finished tasks that were not fetched yet. */
  ready(): Promise<ApiAnswer> {
    return this.#call("tasks_ready", { method: "GET" });
  }

  async #call(operation: string, request: { method: string; body?: string }): Promise<ApiAnswer> {
    const headers = { authorization: this.#authorization, "content-type": "application/json" };
    const response = await fetch(`${this.#url}/v1/tasks/${operation}`, { ...request, headers });
    const text = await response.text();
    if (response.status !== 200)
      throw new Error(`${operation} answered ${response.status}: ${text}`);
    return { text, tasks: envelope.parse(JSON.parse(text)).tasks };
  }
}

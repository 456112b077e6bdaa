import assert from "node:assert/strict";

import type { Envelope, ShownTask } from "./daemon.ts";

/** An account's client of a daemon. */
export interface TaskClient {
  /** A request with the account's key; `path` below the base URL. */
  call(path: string, init?: RequestInit): Promise<Response>;
  /** Posts one task, which must be accepted. Returns its id. */
  post(task: object | string): Promise<string>;
  /** Cancels a task, which must succeed. */
  cancel(id: string): Promise<void>;
  /** Returns the task when it has ended. */
  ended(id: string): Promise<ShownTask>;
  get(id: string): Promise<ShownTask>;
}

export function taskClient({
  url,
  key,
}: {
  readonly url: string;
  readonly key: string;
}): TaskClient {
  const authorization = `Bearer ${key}`;

  function call(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { authorization, "content-type": "application/json", ...init.headers };
    return fetch(url + path, { ...init, headers });
  }

  async function one(response: Response): Promise<ShownTask> {
    const { tasks } = (await response.json()) as Envelope;
    const [task] = tasks;
    assert.ok(task !== undefined);
    return task;
  }

  return {
    call,
    async post(task) {
      const body = typeof task === "string" ? task : JSON.stringify(task);
      const posted = await one(await call("/v1/tasks/task_post", { method: "POST", body }));
      assert.equal(posted.status_code, 20100);
      return posted.id;
    },
    async cancel(id) {
      const response = await call(`/v1/tasks/task_cancel/${id}`, { method: "POST" });
      assert.equal(response.status, 200, await response.text());
    },
    async ended(id) {
      const path = `/v1/tasks/task_get/${id}?collect=false`;
      return one(await call(path, { headers: { prefer: "wait=60" } }));
    },
    async get(id) {
      return one(await call(`/v1/tasks/task_get/${id}?collect=false`));
    },
  };
}

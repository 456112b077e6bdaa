import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { startProgram, type Program, type Ready } from "../helpers/program.ts";

/** The ready line of a daemon for development. */
export interface DevReady extends Ready {
  readonly mode: "dev";
  readonly account: string;
  readonly key: string;
  readonly webhook_secret: string;
  readonly worker_token: string | null;
  readonly inbox_url: string;
  readonly dashboard_url: string | null;
}

export interface DevAnswer {
  readonly status: number;
  readonly code: number;
  readonly body: ShownBody;
  /** The details of its errors, in one text. */
  readonly detail: string;
}

export interface ShownTask {
  readonly id: string;
  readonly state: string;
  readonly result: unknown;
  readonly error: { readonly message: string } | null;
  readonly status_code: number;
  readonly created_at: string;
  readonly expires_at: string | null;
}

export interface ShownEvent {
  readonly at: string;
  readonly event: string;
  readonly task_id: string;
  readonly state?: string;
  readonly outcome?: string;
  readonly attempt?: number;
  readonly delivery?: string;
}

export interface ShownBody {
  readonly status_code: number;
  readonly status_message: string;
  readonly tasks?: readonly ShownTask[];
  readonly task?: ShownTask;
  readonly deliveries?: readonly {
    readonly state: string;
    readonly attempts: readonly { readonly number: number; readonly outcome: string | null }[];
  }[];
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
  readonly now?: string;
  readonly mode?: string;
  readonly next?: readonly {
    readonly at: string;
    readonly what: string;
    readonly task_id: string | null;
    readonly kind: string | null;
  }[];
  readonly events?: readonly ShownEvent[];
  readonly messages?: readonly {
    readonly task_id: string | null;
    readonly signature: { readonly verdict: string };
  }[];
  readonly login?: string;
  readonly key?: string;
  readonly webhook_secret?: string;
  readonly inbox_url?: string;
  readonly task_id?: string;
  readonly attempt?: { readonly outcome: string; readonly http_status: number | null };
  readonly tasks_erased?: number;
  readonly duplicate?: number;
  readonly token?: string;
}

export interface DevDaemon {
  readonly program: Program;
  readonly ready: DevReady;
  /** A request with the account's key; a body makes it JSON, and text goes out as it is. */
  call(line: string, body?: unknown, signal?: AbortSignal): Promise<DevAnswer>;
  /** The same, which must be answered well. */
  ask(line: string, body?: unknown): Promise<ShownBody>;
  /** Posts tasks, which must be accepted, and answers their ids. */
  post(...tasks: readonly object[]): Promise<readonly string[]>;
  task(id: string): Promise<ShownTask>;
}

/** Starts `postbackd dev` as a program of its own, on a clock that stands still unless told. */
export async function startDev(t: TestContext, ...flags: readonly string[]): Promise<DevDaemon> {
  const clock = flags.includes("--clock") ? [] : ["--clock", "manual"];
  const program = startProgram(t, ["dev", "--port", "0", ...clock, ...flags]);
  // That it is what it says is for the test of the ready line.
  const ready = (await program.ready) as DevReady;

  async function call(line: string, body?: unknown, signal?: AbortSignal): Promise<DevAnswer> {
    const [method = "", path = ""] = line.split(" ");
    const authorization = `Bearer ${ready.key}`;
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(ready.url + path, {
      method,
      headers: { authorization, "content-type": "application/json" },
      ...(body !== undefined && { body: text }),
      ...(signal !== undefined && { signal }),
    });
    const shown = (await response.json()) as ShownBody;
    const detail = (shown.errors ?? []).map((each) => `${each.pointer} ${each.detail}`).join("\n");
    return { status: response.status, code: shown.status_code, body: shown, detail };
  }

  async function ask(line: string, body?: unknown): Promise<ShownBody> {
    const answer = await call(line, body);
    assert.equal(answer.code, 20000, `${line}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  return {
    program,
    ready,
    call,
    ask,
    async post(...tasks) {
      const { tasks: posted = [] } = await ask("POST /v1/tasks/task_post", tasks);
      for (const { status_code: code } of posted) assert.equal(code, 20100);
      return posted.map(({ id }) => id);
    },
    async task(id) {
      const { tasks = [] } = await ask(`GET /v1/tasks/task_get/${id}?collect=false`);
      const [task] = tasks;
      assert.ok(task !== undefined);
      return task;
    },
  };
}

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { AnswerOf } from "../../src/api/operations.ts";
import type { DevSettings } from "../../src/embedded/options.ts";
import { startDaemon, type TestAccount } from "../../src/testing/testing.ts";
import { startProgram, type Program, type Ready } from "../helpers/program.ts";

/** The address and the account of a daemon for development. */
interface DevFacts {
  readonly url: string;
  readonly account: string;
  readonly key: string;
  readonly webhook_secret: string;
  readonly inbox_url: string;
}

/** The ready line of `postbackd dev`. */
export interface DevReady extends Ready, DevFacts {
  readonly url: string;
  readonly mode: "dev";
  readonly worker_token: string | null;
  readonly dashboard_url: string | null;
}

export interface DevAnswer {
  readonly status: number;
  readonly code: number;
  readonly body: ShownBody;
  /** The pointers and details of its errors, in one text. */
  readonly detail: string;
}

export interface ShownTask {
  readonly id: string;
  readonly state: string;
  readonly result: unknown;
  readonly error: { readonly message: string } | null;
  readonly status_code: number;
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
  readonly http_status?: number | null;
}

type InboxPage = AnswerOf<"GET /dev/inbox/:box">;

export interface ShownBody {
  readonly status_code: number;
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
  readonly messages?: InboxPage["messages"];
  readonly next_after?: InboxPage["next_after"];
  readonly boxes?: AnswerOf<"GET /dev/inbox">["boxes"];
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

/** A daemon for development. */
export interface DevClient<Facts extends DevFacts = DevFacts> {
  readonly ready: Facts;
  /** Sends a request with the account's key. A body is sent as JSON, a text unchanged. */
  call(line: string, body?: unknown, signal?: AbortSignal): Promise<DevAnswer>;
  /** As {@link call}, for a response that must be 20000. */
  ask(line: string, body?: unknown): Promise<ShownBody>;
  /** Posts tasks, which must be accepted, and returns their ids. */
  post(...tasks: readonly object[]): Promise<readonly string[]>;
  task(id: string): Promise<ShownTask>;
  /** Advances the clock, and returns the events. */
  advance(by: string): Promise<readonly ShownEvent[]>;
  /** The messages of a box; `box` may have a query. */
  look(box: string): Promise<InboxPage["messages"]>;
}

/** Starts a daemon for development in this process, by default on a clock that stands still. */
export async function startDev(
  t: TestContext,
  settings: DevSettings = {},
): Promise<DevClient & { readonly own: TestAccount }> {
  const daemon = await startDaemon(settings);
  t.after(() => daemon.stop());
  const { url, key, login: account, webhookSecret } = daemon;
  const inbox_url = `${url}/inbox/${account}`;
  const client = devClient({ url, key, account, webhook_secret: webhookSecret, inbox_url });
  return { ...client, own: daemon };
}

/** Starts `postbackd dev`, on a clock that stands still unless the flags name another. */
export async function startDevProgram(
  t: TestContext,
  ...flags: readonly string[]
): Promise<DevClient<DevReady> & { readonly program: Program }> {
  const clock = flags.includes("--clock") ? [] : ["--clock", "manual"];
  const program = startProgram(t, ["dev", "--port", "0", ...clock, ...flags]);
  // The test of the ready line checks its fields.
  return { ...devClient((await program.ready) as DevReady), program };
}

function devClient<Facts extends DevFacts>(ready: Facts): DevClient<Facts> {
  async function call(line: string, body?: unknown, signal?: AbortSignal): Promise<DevAnswer> {
    const [method = "", path = ""] = line.split(" ");
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await fetch(ready.url + path, {
      method,
      headers: { authorization: `Bearer ${ready.key}`, "content-type": "application/json" },
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
      return tasks[0] ?? assert.fail(id);
    },
    advance: async (by) => (await ask("POST /dev/clock/advance", { by })).events ?? [],
    look: async (box) => (await ask(`GET /dev/inbox/${box}`)).messages ?? [],
  };
}

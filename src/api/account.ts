import type { TaskState } from "../domain/task.ts";
import { envelope, type OwnFields } from "./envelope.ts";
import {
  count,
  integer,
  list,
  named,
  nullable,
  object,
  text,
  type Static,
  type ValuesOf,
} from "./schema.ts";
import { Id, Login, Time } from "./value.ts";

/** The account that calls, and its keys. */

const Limit = count({ description: "0 is no limit." });

/** What an account may take up. */
export const LIMITS = {
  bytes: count({
    description: "Of tasks in the store, from which posts are 50700; 0 is no limit.",
  }),
  open_tasks: count({
    description: "That wait or run, beyond which posts are 42900; 0 is no limit.",
  }),
  requests_per_minute: Limit,
  tasks_per_minute: count({ description: "That are posted; 0 is no limit." }),
};

export type AccountLimits = ValuesOf<typeof LIMITS>;

const Limits = named(
  "Limits",
  object({
    body_bytes: count(),
    tasks_per_post: count(),
    result_bytes: count(),
    queue_days: integer({
      minimum: 1,
      description: "That a task may wait to be started; then it is 50402.",
    }),
    ...LIMITS,
  }),
);

/** What an account has. */
export const Usage = named(
  "Usage",
  object({
    bytes: count({
      description:
        "Of tasks in the store: data, input, result and error, with what a task takes beside.",
    }),
    open_tasks: count({ description: "That wait or run." }),
  }),
);
export type Usage = Static<typeof Usage>;

export const KeyId = text({ pattern: "^key_[0-9a-f]{32}$" });

/** A whole key. */
export const WholeKey = text({ pattern: "^pbd_live_[0-9A-Za-z]{40}$" });

export const WebhookSecret = text({ pattern: "^whsec_[0-9A-Za-z+/]{43}=$" });

const KEY = {
  key_id: KeyId,
  prefix: text(),
  last_four: text({ minLength: 4, maxLength: 4 }),
  label: nullable(text()),
  created_at: Time,
};

const Key = named(
  "Key",
  object({ ...KEY, last_used_at: nullable(Time), revoked_at: nullable(Time) }),
);
export type Key = Static<typeof Key>;

const NewKey = named(
  "NewKey",
  object({ ...KEY, key: { ...WholeKey, description: "The whole key, shown this once." } }),
);
export type NewKey = Static<typeof NewKey>;

const TaskCounts = named(
  "TaskCounts",
  object({
    queued: count(),
    running: count(),
    completed: count(),
    failed: count(),
    cancelled: count(),
  } satisfies Record<TaskState, unknown>),
);

const Secret = {
  ...WebhookSecret,
  description:
    "What the account's webhooks are signed with; its UTF-8 bytes as they stand here are the key.",
};

const UserData = envelope({
  login: Login,
  webhook_secret: Secret,
  webhook_secret_next: nullable(WebhookSecret, {
    description: "What `X-Signature-Next` is made with; null unless a rotation is going on.",
  }),
  keys: list(Key),
  key_limit: integer({ description: "How many keys may be active at once." }),
  limits: Limits,
  usage: Usage,
  retention_days: integer({ description: "How long results are kept." }),
  tasks: TaskCounts,
});
export type UserData = OwnFields<typeof UserData>;

export const ACCOUNT_ANSWERS = {
  "GET /v1/appendix/user_data": UserData,
  "POST /v1/appendix/keys": envelope({ key: NewKey }),
  "DELETE /v1/appendix/keys/:key_id": envelope({ key: Key }),
  "POST /v1/access_requests": envelope({ request_id: Id }),
};

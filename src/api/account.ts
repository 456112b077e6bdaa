import {
  EMAIL,
  KEY_ID,
  KEY_LABEL,
  REQUEST_MESSAGE,
  REQUEST_NAME,
} from "../domain/account/account.ts";
import type { TaskState } from "../domain/task/task.ts";
import { Id, Login, type OwnFields, Time, envelope } from "./envelope.ts";
import { optional, required, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";

/** The calling account, and its keys. */

const Limit = s.count("0 means no limit.");

export const LIMITS = {
  bytes: s.count("Stored bytes of tasks; posts beyond it get 50700. 0 removes the limit."),
  open_tasks: s.count("Waiting and running tasks; posts beyond it get 42900. 0 removes the limit."),
  requests_per_minute: Limit,
  tasks_per_minute: s.count("Posted tasks; 0 means no limit."),
};

export type AccountLimits = s.ValuesOf<typeof LIMITS>;

const Limits = s.named(
  "Limits",
  s.object({
    body_bytes: s.count(),
    tasks_per_post: s.count(),
    result_bytes: s.count(),
    queue_days: s.integer({
      minimum: 1,
      description: "How long a task may be queued; then it fails with 50402.",
    }),
    ...LIMITS,
  }),
);

export const Usage = s.named(
  "Usage",
  s.object({
    bytes: s.count(
      "Of tasks in the store: data, input, result and error, attempts and stored responses, with the size of their rows.",
    ),
    open_tasks: s.count("That wait or run."),
  }),
);
export type Usage = s.Static<typeof Usage>;

export const KeyId = s.text(KEY_ID.schema);

export const WholeKey = s.text({ pattern: "^pbd_live_[0-9A-Za-z]{40}$" });

export const WebhookSecret = s.text({ pattern: "^whsec_[0-9A-Za-z+/]{43}=$" });

const KEY = {
  key_id: KeyId,
  prefix: s.text(),
  last_four: s.text({ minLength: 4, maxLength: 4 }),
  label: s.nullable(s.text()),
  created_at: Time,
};

const Key = s.named(
  "Key",
  s.object({ ...KEY, last_used_at: s.nullable(Time), revoked_at: s.nullable(Time) }),
);
export type Key = s.Static<typeof Key>;

const NewKey = s.named(
  "NewKey",
  s.object({
    ...KEY,
    key: { ...WholeKey, description: "The complete key; no later response has it." },
  }),
);
export type NewKey = s.Static<typeof NewKey>;

const TaskCounts = s.named(
  "TaskCounts",
  s.object({
    queued: s.count(),
    running: s.count(),
    completed: s.count(),
    failed: s.count(),
    cancelled: s.count(),
  } satisfies Record<TaskState, unknown>),
);

const Secret = {
  ...WebhookSecret,
  description: "Signs the account's webhooks; the UTF-8 bytes of this text are the key.",
};

const UserData = envelope({
  login: Login,
  webhook_secret: Secret,
  webhook_secret_next: s.nullable(
    WebhookSecret,
    "The key of `X-Signature-Next`; null without a rotation in progress.",
  ),
  keys: s.list(Key),
  key_limit: s.integer("The most active keys."),
  limits: Limits,
  usage: Usage,
  retention_days: s.integer("How long results are kept."),
  tasks: TaskCounts,
});
export type UserData = OwnFields<typeof UserData>;

export const ACCOUNT_ANSWERS = {
  "GET /v1/appendix/user_data": UserData,
  "POST /v1/appendix/keys": envelope({ key: NewKey }),
  "DELETE /v1/appendix/keys/:key_id": envelope({ key: Key }),
  "POST /v1/access_requests": envelope({ request_id: Id }),
};

export const ACCOUNT_INPUTS = {
  "POST /v1/appendix/keys": {
    body: { label: optional(KEY_LABEL, "The purpose of the key.", { examples: ["ci"] }) },
    isBodyOptional: true,
  },
  "POST /v1/access_requests": {
    body: {
      email: required(EMAIL, "", { examples: ["ada@example.com"] }),
      name: optional(REQUEST_NAME),
      company: optional(REQUEST_NAME),
      message: optional(REQUEST_MESSAGE),
    },
    holds: "message",
  },
} satisfies InputsFor<typeof ACCOUNT_ANSWERS>;

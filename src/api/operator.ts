import { LOG_LINE_LEVELS } from "../domain/log.ts";
import { LIMITS, Usage, WebhookSecret, WholeKey } from "./account.ts";
import { envelope, NextCursor, type OwnFields } from "./envelope.ts";
import {
  constant,
  count,
  flag,
  list,
  named,
  nullable,
  object,
  text,
  word,
  type Static,
} from "./schema.ts";
import { Success, WorkCounts } from "./stats.ts";
import { SERVICE_STATUS } from "./status.ts";
import { Id, Login, Time } from "./value.ts";

/** What the operator alone is shown. */

const HeldWork = nullable(object({ queued: count(), running: count(), webhooks: count() }), {
  description:
    "What waits until the account is enabled: queued tasks, those that run and are told to stop, and webhooks that are to " +
    "be sent. Null where it is not disabled.",
});

const AccountOverview = named(
  "AccountOverview",
  object({
    login: Login,
    created_at: Time,
    disabled_at: nullable(Time),
    keys_active: count(),
    is_rotating: flag({ description: "Its webhooks are signed with two secrets for now." }),
    held: HeldWork,
    tasks: WorkCounts,
    limits: object(LIMITS, { description: "That count for this account now." }),
    usage: Usage,
    day: object(
      {
        posted: count(),
        delivered: count(),
        given_up: count(),
        refused: count(),
        success: Success,
      },
      { description: "Of the last 24 hours." },
    ),
  }),
);
export type AccountOverview = Static<typeof AccountOverview>;

const AccountState = named(
  "AccountState",
  object({
    login: Login,
    disabled_at: nullable(Time),
    is_rotating: flag(),
    held: HeldWork,
  }),
);

const NewAccount = envelope({
  login: Login,
  key: { ...WholeKey, description: "The account's first key, shown this once." },
  webhook_secret: WebhookSecret,
});
export type NewAccount = OwnFields<typeof NewAccount>;

const AccessRequest = named(
  "AccessRequest",
  object({
    id: Id,
    email: text(),
    name: nullable(text()),
    company: nullable(text()),
    message: nullable(text()),
    created_at: Time,
    decision: nullable(word(["approved", "denied"])),
    decided_at: nullable(Time),
  }),
);
export type AccessRequest = Static<typeof AccessRequest>;

const Bytes = count({ description: "In bytes." });

const Setting = object({
  key: text(),
  value: nullable(text({ description: "As TOML writes it; null where there is none." })),
  source: text({
    description: "`flag --port`, `environment POSTBACKD_PORT`, `file …` or `default`.",
  }),
  is_default: flag(),
});
export type Setting = Static<typeof Setting>;

const LogLine = object({
  time: text(),
  level: word(LOG_LINE_LEVELS),
  message: text(),
  facts: text(),
});
export type LogLine = Static<typeof LogLine>;

const System = envelope({
  version: text(),
  node: text(),
  sqlite: text(),
  platform: text(),
  pid: count(),
  started_at: Time,
  uptime_ms: count(),
  url: text(),
  database: object({
    path: text(),
    bytes: Bytes,
    wal_bytes: Bytes,
    data_bytes: count({ description: "Without what erased tasks left in the file." }),
  }),
  disk: object({ free_bytes: nullable(Bytes), total_bytes: nullable(Bytes) }),
  memory: object({ rss_bytes: Bytes, heap_bytes: Bytes }),
  event_loop: nullable(object({ p99_delay_ms: count(), worst_delay_ms: count() }), {
    description: "How late it was in the last minute. Null where it is not watched.",
  }),
  status: object(SERVICE_STATUS),
  settings: list(Setting),
  log: list(LogLine, { description: "The newest last." }),
});
export type System = OwnFields<typeof System>;

const OneAccount = envelope({ account: AccountState });

export const OPERATOR_ANSWERS = {
  "GET /v1/operator/accounts": envelope({
    accounts: list(AccountOverview),
    next_cursor: NextCursor,
  }),
  "POST /v1/operator/accounts": NewAccount,
  "POST /v1/operator/accounts/disable/:login": OneAccount,
  "POST /v1/operator/accounts/enable/:login": OneAccount,
  "POST /v1/operator/accounts/rotate/:login": OneAccount,
  "POST /v1/operator/accounts/finish/:login": OneAccount,
  "GET /v1/operator/access_requests": envelope({ requests: list(AccessRequest), more: flag() }),
  "POST /v1/operator/access_requests/approve/:request_id": NewAccount,
  "POST /v1/operator/access_requests/deny/:request_id": envelope({
    id: Id,
    decision: constant("denied"),
    decided_at: Time,
  }),
  "GET /v1/operator/system": System,
};

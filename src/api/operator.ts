import { NEW_LOGIN, SESSION_IDLE_MS } from "../domain/account/account.ts";
import { LOG_LINE_LEVELS } from "../domain/log.ts";
import { oneOf, plainText } from "../domain/rule.ts";
import { CONDITION_NAMES } from "../domain/stats/condition.ts";
import { LIMITS, Usage, WebhookSecret, WholeKey } from "./account.ts";
import { Id, Login, NextCursor, type OwnFields, Time, envelope } from "./envelope.ts";
import {
  CURSOR_RULE,
  type InputsFor,
  optional,
  required,
  textUpTo,
  wholeNumber,
  withDefault,
} from "./input.ts";
import * as s from "./schema.ts";
import { Success, WorkCounts } from "./stats.ts";
import { SERVICE_STATUS } from "./status.ts";

/** The answers that only the operator gets. */

const SuspendedWork = s.nullable(
  s.object({ queued: s.count(), running: s.count(), webhooks: s.count() }),
  "The work that waits until the account is enabled: queued tasks, running tasks that are stopped, and webhooks to " +
    "be sent. Null if it is not disabled.",
);

const AccountOverview = s.named(
  "AccountOverview",
  s.object({
    login: Login,
    created_at: Time,
    disabled_at: s.nullable(Time),
    keys_active: s.count(),
    is_rotating: s.flag("Its webhooks are signed with two secrets for now."),
    held: SuspendedWork,
    tasks: WorkCounts,
    limits: s.object(LIMITS, { description: "That count for this account now." }),
    usage: Usage,
    day: s.object(
      {
        posted: s.count(),
        delivered: s.count(),
        given_up: s.count(),
        refused: s.count(),
        success: Success,
      },
      { description: "Of the last 24 hours." },
    ),
  }),
);
export type AccountOverview = s.Static<typeof AccountOverview>;

const AccountState = s.named(
  "AccountState",
  s.object({
    login: Login,
    disabled_at: s.nullable(Time),
    is_rotating: s.flag(),
    held: SuspendedWork,
  }),
);

const NewAccount = envelope({
  login: Login,
  key: { ...WholeKey, description: "The account's first key, shown this once." },
  webhook_secret: WebhookSecret,
});
export type NewAccount = OwnFields<typeof NewAccount>;

const AccessRequest = s.named(
  "AccessRequest",
  s.object({
    id: Id,
    email: s.text(),
    name: s.nullable(s.text()),
    company: s.nullable(s.text()),
    message: s.nullable(s.text()),
    created_at: Time,
    decision: s.nullable(s.word(["approved", "denied"])),
    decided_at: s.nullable(Time),
  }),
);
export type AccessRequest = s.Static<typeof AccessRequest>;

const Bytes = s.count("In bytes.");

const Setting = s.object({
  key: s.text(),
  value: s.nullable(s.text("As TOML writes it; null without a value.")),
  source: s.text("`flag --port`, `environment POSTBACKD_PORT`, `file …` or `default`."),
  is_default: s.flag(),
});
export type Setting = s.Static<typeof Setting>;

const LogLine = s.object({
  time: s.text(),
  level: s.word(LOG_LINE_LEVELS),
  message: s.text(),
  facts: s.text(),
});
export type LogLine = s.Static<typeof LogLine>;

const Condition = s.object({
  name: s.word(CONDITION_NAMES),
  subject: s.nullable(s.text(), "The host, the type or the account that it is about."),
  since: Time,
  text: s.text(),
  remedy: s.text(),
});

const System = envelope({
  version: s.text(),
  node: s.text(),
  sqlite: s.text(),
  platform: s.text(),
  pid: s.count(),
  started_at: Time,
  uptime_ms: s.count(),
  url: s.text(),
  database: s.object({
    path: s.text("Of the file; or the server's URL, without its password."),
    bytes: s.nullable(Bytes, "Of the file. Null on PostgreSQL."),
    wal_bytes: s.nullable(Bytes),
    data_bytes: s.count("Without what erased tasks left in the file."),
  }),
  disk: s.object({ free_bytes: s.nullable(Bytes), total_bytes: s.nullable(Bytes) }),
  memory: s.object({ rss_bytes: Bytes, heap_bytes: Bytes }),
  event_loop: s.nullable(
    s.object({ p99_delay_ms: s.count(), worst_delay_ms: s.count() }),
    "How late it was in the last minute. Null if it is not measured.",
  ),
  backups: s.nullable(
    s.object({
      newest: s.nullable(s.object({ file: s.text(), created_at: Time, bytes: Bytes })),
      failure: s.nullable(
        s.object({ at: Time, reason: s.text() }),
        "The last that failed since the start; null once one has succeeded after it.",
      ),
    }),
    "Those that the daemon makes by backup.schedule. Null without a schedule.",
  ),
  status: s.object(SERVICE_STATUS),
  conditions: s.list(Condition, "Those that the operator should end, the oldest first."),
  settings: s.list(Setting, "Those in force."),
  restart_needs: s.list(
    s.text(),
    "Changes of the last read configuration that take effect after a restart: names of settings, tables and types.",
  ),
  log: s.list(LogLine, "The newest last."),
});
export type System = OwnFields<typeof System>;

const OneAccount = envelope({ account: AccountState });

const LOGIN_BODY = { login: required(NEW_LOGIN, "", { examples: ["alice"] }) };

const LIST_LIMIT = { min: 1, max: 200, standard: 50 };

const Session = s.named(
  "Session",
  s.object({
    role: s.word(["account", "operator"]),
    login: s.nullable(s.text("Null is the operator.")),
    expires_at: { ...Time, description: "When it is over at the latest." },
    idle_seconds: s.integer({
      const: SESSION_IDLE_MS / 1000,
      description: "After so long without use it is over.",
    }),
    version: s.text("Of the daemon."),
    time: { ...Time, description: "The daemon's, now." },
  }),
);
export type Session = s.Static<typeof Session>;

const Opened = envelope({ session: Session });
const None: s.Schema<null> = { type: "null" };

// Whatever is shown that can be no credential is refused as one that is not known.
const CREDENTIAL = plainText(200);

export const OPERATOR_ANSWERS = {
  "GET /v1/operator/accounts": envelope({
    accounts: s.list(AccountOverview),
    next_cursor: NextCursor,
  }),
  "POST /v1/operator/accounts": NewAccount,
  "POST /v1/operator/accounts/disable/:login": OneAccount,
  "POST /v1/operator/accounts/enable/:login": OneAccount,
  "POST /v1/operator/accounts/rotate/:login": OneAccount,
  "POST /v1/operator/accounts/finish/:login": OneAccount,
  "GET /v1/operator/access_requests": envelope({ requests: s.list(AccessRequest), more: s.flag() }),
  "POST /v1/operator/access_requests/approve/:request_id": NewAccount,
  "POST /v1/operator/access_requests/deny/:request_id": envelope({
    id: Id,
    decision: s.constant("denied"),
    decided_at: Time,
  }),
  "GET /v1/operator/system": System,
  "POST /v1/session": Opened,
  "POST /v1/session/link": Opened,
  "GET /v1/session": envelope({ session: s.nullable(Session) }),
  "DELETE /v1/session": envelope({ session: None }),
};

export const OPERATOR_INPUTS = {
  "GET /v1/operator/accounts": {
    query: {
      q: textUpTo(64, "Part of a login."),
      cursor: optional(CURSOR_RULE, "`next_cursor` of the page before, with the same `q`.", {
        examples: ["YWNjb3VudHMtYWxpY2U"],
      }),
      limit: wholeNumber(LIST_LIMIT, "How many accounts to list."),
    },
  },
  "POST /v1/operator/accounts": { body: LOGIN_BODY },
  "GET /v1/operator/access_requests": {
    query: {
      which: withDefault(
        oneOf(["pending", "all"]),
        "pending",
        "Those that wait for a decision, or all; `pending` unless given.",
      ),
    },
  },
  "POST /v1/operator/access_requests/approve/:request_id": { body: LOGIN_BODY },
  "POST /v1/session": {
    body: {
      login: required(CREDENTIAL, "", { examples: ["alice"] }),
      key: required(CREDENTIAL, "A key of this account."),
    },
  },
  "POST /v1/session/link": {
    body: { token: required(CREDENTIAL, "The part of the link after `#link=`.") },
  },
} satisfies InputsFor<typeof OPERATOR_ANSWERS>;

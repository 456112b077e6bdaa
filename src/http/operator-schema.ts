import { nullable, objectSchema, schemaRef, type JsonSchema } from "./json-schema.ts";
import { LIMIT_FIELDS } from "./quota-document.ts";

/** What the operator's operations answer, as schemas by name; part of those in api-schema.ts. */

const TEXT: JsonSchema = { type: "string" };
const COUNT: JsonSchema = { type: "integer", minimum: 0 };
const TIME: JsonSchema = {
  type: "string",
  format: "date-time",
  description: "RFC 3339 in UTC, with milliseconds.",
};
const BYTES: JsonSchema = { type: "integer", minimum: 0, description: "In bytes." };
const MILLISECONDS: JsonSchema = { type: "integer", minimum: 0 };
const FLAG: JsonSchema = { type: "boolean" };

/** A login, in answers. */
export const LOGIN: JsonSchema = { type: "string", pattern: "^[A-Za-z0-9._@+-]{1,64}$" };

const DAY = objectSchema(
  {
    posted: COUNT,
    delivered: COUNT,
    given_up: COUNT,
    refused: COUNT,
    success: {
      ...nullable({ type: "number", minimum: 0, maximum: 1 }),
      description: "Delivered ones among all that ended; null where none did.",
    },
  },
  { description: "Of the last 24 hours." },
);

const SETTING = objectSchema({
  key: TEXT,
  value: nullable({ ...TEXT, description: "As TOML writes it; null where there is none." }),
  source: {
    ...TEXT,
    description: "`flag --port`, `environment POSTBACKD_PORT`, `file …` or `default`.",
  },
  is_default: FLAG,
});

const HELD: JsonSchema = nullable({
  ...objectSchema({ queued: COUNT, running: COUNT, webhooks: COUNT }),
  description:
    "What waits until the account is enabled: queued tasks, those that run and are told to stop, and webhooks that are to " +
    "be sent. Null where it is not disabled.",
});

const LOG_LINE = objectSchema({
  time: TEXT,
  level: { type: "string", enum: ["info", "warn", "error"] },
  message: TEXT,
  facts: TEXT,
});

export const OPERATOR_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  AccountOverview: objectSchema({
    login: LOGIN,
    created_at: TIME,
    disabled_at: nullable(TIME),
    keys_active: COUNT,
    is_rotating: { ...FLAG, description: "Its webhooks are signed with two secrets for now." },
    held: HELD,
    tasks: schemaRef("WorkCounts"),
    limits: objectSchema(LIMIT_FIELDS, { description: "That count for this account now." }),
    usage: schemaRef("Usage"),
    day: DAY,
  }),
  AccountState: objectSchema({
    ...{ login: LOGIN, disabled_at: nullable(TIME), is_rotating: FLAG, held: HELD },
  }),
  AccessRequest: objectSchema({
    id: { type: "string", format: "uuid" },
    email: TEXT,
    name: nullable(TEXT),
    company: nullable(TEXT),
    message: nullable(TEXT),
    created_at: TIME,
    decision: { enum: ["approved", "denied", null] },
    decided_at: nullable(TIME),
  }),
  RunnerType: objectSchema({
    name: TEXT,
    kind: { type: "string", enum: ["echo", "command", "http", "worker", "function"] },
    runs: nullable({
      ...TEXT,
      description: "A command's program and how many arguments it has; a service's origin.",
    }),
    concurrency: COUNT,
    timeout_ms: MILLISECONDS,
    lease_ms: nullable(MILLISECONDS),
    retries: COUNT,
    running: COUNT,
    waiting: { ...COUNT, description: "Queued tasks that may start now, counted up to 10,000." },
    waiting_is_more: { ...FLAG, description: "More wait than were counted." },
    oldest_waiting_ms: nullable(MILLISECONDS),
    workers_waiting: nullable({
      ...COUNT,
      description: "Requests of workers that wait for a task now; null for other kinds.",
    }),
    has_worker: nullable({
      ...FLAG,
      description: "False while tasks wait and no worker of the type was heard for a minute.",
    }),
  }),
  WorkerOverview: objectSchema({
    name: TEXT,
    types: { type: "array", items: TEXT },
    last_four: TEXT,
    created_at: TIME,
    last_seen_at: nullable(TIME),
    revoked_at: nullable(TIME),
    leases: COUNT,
  }),
};

/** The answer's fields of the operation that shows the process. */
export const SYSTEM_FIELDS: Readonly<Record<string, JsonSchema>> = {
  version: TEXT,
  node: TEXT,
  sqlite: TEXT,
  platform: TEXT,
  pid: COUNT,
  started_at: TIME,
  uptime_ms: MILLISECONDS,
  url: TEXT,
  database: objectSchema({
    path: TEXT,
    bytes: BYTES,
    wal_bytes: BYTES,
    data_bytes: { ...BYTES, description: "Without what erased tasks left in the file." },
  }),
  disk: objectSchema({ free_bytes: nullable(BYTES), total_bytes: nullable(BYTES) }),
  memory: objectSchema({ rss_bytes: BYTES, heap_bytes: BYTES }),
  event_loop: nullable({
    ...objectSchema({ p99_delay_ms: COUNT, worst_delay_ms: COUNT }),
    description: "How late it was in the last minute. Null where it is not watched.",
  }),
  status: objectSchema({
    status: { type: "string", enum: ["operational", "degraded", "down"] },
    components: schemaRef("StatusComponents"),
  }),
  settings: { type: "array", items: SETTING },
  log: { type: "array", items: LOG_LINE, description: "The newest last." },
};

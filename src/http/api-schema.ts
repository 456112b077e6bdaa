import { PROGRESS_NOTE_MAX } from "../domain/progress.ts";
import { statusMessage } from "../domain/status.ts";
import { TASK_FIELD_SCHEMAS } from "../domain/task-post.ts";
import { TASK_STATES } from "../domain/task.ts";
import { nullable, objectSchema, schemaRef, type JsonSchema } from "./json-schema.ts";
import { OPERATOR_SCHEMAS } from "./operator-schema.ts";
import { LIMIT_FIELDS, USAGE_SCHEMA } from "./quota-document.ts";
import { SEARCH_SCHEMAS, timelineSchemas } from "./search-schema.ts";
import { SESSION_SCHEMAS } from "./session-schema.ts";
import { STATS_SCHEMAS } from "./stats-schema.ts";
import { CODE_TABLE, CODES, ERROR_CODES, TASK_CODE_TABLE, TASK_CODES } from "../api/status-doc.ts";
import { WORKER_SCHEMAS } from "./worker-schema.ts";

/**
 * What answers look like, as schemas by name. Operations refer to them with schemaRef; openapi.ts puts them into
 * the document; tests hold real answers against them.
 */

const TIME: JsonSchema = {
  type: "string",
  format: "date-time",
  description: "RFC 3339 in UTC, with milliseconds.",
};

/** An id of a task. */
export const ID: JsonSchema = {
  type: "string",
  format: "uuid",
  description: "A lower-case UUIDv7.",
};

/** An id of a key. */
export const KEY_ID: JsonSchema = { type: "string", pattern: "^key_[0-9a-f]{32}$" };

const COUNT: JsonSchema = { type: "integer", minimum: 0 };
const TEXT: JsonSchema = { type: "string" };
const ANYTHING: JsonSchema = { description: "Any JSON." };

const TASK_CODE: JsonSchema = {
  type: "integer",
  enum: TASK_CODES,
  description: TASK_CODE_TABLE,
};

/** The envelope around an operation's own fields. */
export function envelopeSchema(
  fields: Readonly<Record<string, JsonSchema>>,
  optional: readonly string[] = [],
): JsonSchema {
  const head = { status_code: { const: 20000 }, status_message: { const: statusMessage(20000) } };
  return objectSchema({ ...head, ...fields }, { optional });
}

/** The envelope around tasks, with what an operation adds. */
export function tasksEnvelopeSchema(
  item: JsonSchema,
  added: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  const tasks = { type: "array", items: item };
  return envelopeSchema({ tasks_count: COUNT, tasks_error: COUNT, ...added, tasks });
}

/** Where a list goes on; null on its last page. */
export const NEXT_CURSOR: JsonSchema = {
  type: ["string", "null"],
  description: "To be given as `cursor` for the next page; null on the last one.",
};

const PROGRESS_FIELDS: Readonly<Record<string, JsonSchema>> = {
  progress: { type: "number", minimum: 0, maximum: 1 },
  note: { ...nullable(TEXT), maxLength: PROGRESS_NOTE_MAX },
};

const SUMMARY_FIELDS: Readonly<Record<string, JsonSchema>> = {
  id: ID,
  status_code: TASK_CODE,
  status_message: TEXT,
  state: { type: "string", enum: TASK_STATES },
  type: nullable(TEXT),
  created_at: TIME,
  started_at: nullable(TIME),
  completed_at: nullable(TIME),
  expires_at: nullable(TIME),
  runs: COUNT,
  progress: nullable(
    objectSchema(PROGRESS_FIELDS, { description: "How far a run has come; null when not told." }),
  ),
  data: {
    type: "object",
    description: "The task as posted, URLs in encoded form. A refused task may hold anything here.",
  },
};

const KEY_FIELDS: Readonly<Record<string, JsonSchema>> = {
  key_id: KEY_ID,
  prefix: TEXT,
  last_four: { type: "string", minLength: 4, maxLength: 4 },
  label: nullable(TEXT),
  created_at: TIME,
};

const PHASE: JsonSchema = {
  type: ["number", "null"],
  minimum: 0,
  description: "Milliseconds; null for a phase that did not happen.",
};

const ATTEMPT_FIELDS: Readonly<Record<string, JsonSchema>> = {
  number: { type: "integer", minimum: 1, description: "Within its series, from 1." },
  due_at: TIME,
  started_at: nullable(TIME),
  ended_at: nullable(TIME),
  outcome: {
    enum: ["delivered", "failed", "timed_out", "refused", "interrupted", null],
    description: "Null while it is scheduled or in flight.",
  },
  http_status: nullable({ type: "integer" }),
  error: nullable(TEXT),
  address: nullable({ ...TEXT, description: "The address that was dialled." }),
  phases: objectSchema({
    dns_ms: PHASE,
    connect_ms: PHASE,
    tls_ms: PHASE,
    first_byte_ms: PHASE,
  }),
  response_excerpt: nullable({ ...TEXT, description: "The first 4 KiB of the response's body." }),
  refusal: nullable(
    objectSchema({ host: TEXT, addresses: { type: "array", items: TEXT }, rule: TEXT }),
  ),
};

const DELIVERY = objectSchema({
  delivery_id: { ...TEXT, description: "What the receiver gets as webhook-id." },
  kind: { type: "string", enum: ["postback", "pingback"] },
  url: TEXT,
  state: { type: "string", enum: ["scheduled", "in_flight", "delivered", "given_up", "refused"] },
  next_attempt_at: nullable(TIME),
  attempts: { type: "array", items: schemaRef("Attempt") },
});

const STATUS_WORD: JsonSchema = { type: "string", enum: ["operational", "degraded", "down"] };

/** Every schema that has a name. */
export const API_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  PostedTask: objectSchema(TASK_FIELD_SCHEMAS, { optional: Object.keys(TASK_FIELD_SCHEMAS) }),
  TaskSummary: objectSchema(SUMMARY_FIELDS, {
    description: "A task in a list: without input, result and error.",
  }),
  Task: objectSchema({
    ...SUMMARY_FIELDS,
    result: ANYTHING,
    error: nullable(objectSchema({ message: TEXT, detail: ANYTHING })),
  }),
  TaskEnvelope: {
    ...tasksEnvelopeSchema(schemaRef("Task")),
    description: "The body of task_get, and byte for byte that of a postback.",
  },
  Progress: objectSchema(PROGRESS_FIELDS, { optional: ["note"] }),
  ...WORKER_SCHEMAS,
  ...SESSION_SCHEMAS,
  ...OPERATOR_SCHEMAS,
  ...STATS_SCHEMAS,
  ...SEARCH_SCHEMAS,
  Delivery: DELIVERY,
  Attempt: objectSchema(ATTEMPT_FIELDS),
  ...timelineSchemas({ task: SUMMARY_FIELDS, attempt: ATTEMPT_FIELDS }),
  Key: objectSchema({
    ...KEY_FIELDS,
    last_used_at: nullable(TIME),
    revoked_at: nullable(TIME),
  }),
  NewKey: objectSchema({
    ...KEY_FIELDS,
    key: {
      type: "string",
      pattern: "^pbd_live_[0-9A-Za-z]{40}$",
      description: "The whole key, shown this once.",
    },
  }),
  Limits: objectSchema({
    body_bytes: COUNT,
    tasks_per_post: COUNT,
    result_bytes: COUNT,
    queue_days: {
      ...{ type: "integer", minimum: 1 },
      description: "That a task may wait to be started; then it is 50402.",
    },
    ...LIMIT_FIELDS,
  }),
  Usage: USAGE_SCHEMA,
  TaskCounts: objectSchema(Object.fromEntries(TASK_STATES.map((state) => [state, COUNT]))),
  Marketplace: {
    type: "object",
    properties: { code: TEXT, name: TEXT },
    required: ["code", "name"],
    additionalProperties: true,
  },
  StatusComponents: objectSchema({ api: STATUS_WORD, runners: STATUS_WORD, webhooks: STATUS_WORD }),
  StatusCode: objectSchema(
    {
      code: { type: "integer", enum: CODES },
      message: {
        ...TEXT,
        description: "With NAME and REASON where a field's name and a reason stand.",
      },
      http: nullable({ type: "integer", description: "Null for codes that stand on tasks only." }),
    },
    { description: `Every code there is.\n\n${CODE_TABLE}` },
  ),
  Error: objectSchema(
    {
      status_code: { type: "integer", enum: ERROR_CODES },
      status_message: TEXT,
      errors: {
        type: "array",
        description: "What was found, where there is more to say than the message does.",
        items: objectSchema({
          pointer: { type: "string", description: "A JSON pointer (RFC 6901) into the request." },
          detail: TEXT,
        }),
      },
    },
    { optional: ["errors"] },
  ),
};

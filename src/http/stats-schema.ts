import { nullable, objectSchema, type JsonSchema } from "./json-schema.ts";

/** What the numbers of the dashboard look like, as schemas by name; part of those in api-schema.ts. */

const COUNT: JsonSchema = { type: "integer", minimum: 0 };
const TEXT: JsonSchema = { type: "string" };
const TIME: JsonSchema = { type: "string", format: "date-time" };
const FLAG: JsonSchema = { type: "boolean" };
const SHARE: JsonSchema = { type: ["number", "null"], minimum: 0, maximum: 1 };
const PERCENTILE: JsonSchema = { type: ["number", "null"], minimum: 0 };

const RETRYING: JsonSchema = {
  ...COUNT,
  description: "Deliveries that failed and will be tried again.",
};

const OUTCOMES: Readonly<Record<string, JsonSchema>> = {
  posted: COUNT,
  completed: COUNT,
  failed: COUNT,
  first_attempts: { ...COUNT, description: "First attempts that ended." },
  first_delivered: COUNT,
  delivered: COUNT,
  given_up: COUNT,
  refused: COUNT,
};

/** Which of the first steps were ever taken, and what the next ones need. */
export const FIRST_STEPS_SCHEMA: JsonSchema = objectSchema({
  has_account: FLAG,
  has_posted: FLAG,
  has_completed: FLAG,
  has_webhook: FLAG,
  has_delivered: FLAG,
  has_collected: FLAG,
  types: {
    type: "array",
    items: TEXT,
    description: "The types that a task may name, those that give back their input first.",
  },
});

export const STATS_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  WorkCounts: objectSchema({
    waiting: { ...COUNT, description: "Queued tasks that may run now." },
    delayed: {
      ...COUNT,
      description:
        "Queued tasks that start later: at `start_at`, or for another try after a failure.",
    },
    running: COUNT,
    ready: { ...COUNT, description: "Finished tasks that nobody has collected." },
    retrying: RETRYING,
    undelivered: { ...COUNT, description: "Deliveries that are given up or refused now." },
  }),
  DayCounts: objectSchema(
    {
      ...OUTCOMES,
      success: {
        ...SHARE,
        description: "Delivered ones among all that ended; null where none did.",
      },
    },
    { description: "Of the last 24 hours." },
  ),
  Attention: objectSchema({
    level: { type: "string", enum: ["problem", "warning"] },
    what: { ...TEXT, description: "One word for its kind." },
    text: { ...TEXT, description: "What it is and what to do, for people." },
    link: nullable({ ...TEXT, description: "A page of the dashboard." }),
  }),
  SeriesBucket: objectSchema({
    at: TIME,
    is_whole: { ...FLAG, description: "False while its time is not over." },
    ...OUTCOMES,
    cancelled: COUNT,
    p50_ms: PERCENTILE,
    p95_ms: PERCENTILE,
    p99_ms: PERCENTILE,
    attempts: { ...COUNT, description: "Attempts that ended, retries included." },
    queued: { ...COUNT, description: "The most tasks that were seen waiting to run." },
    oldest_ms: {
      ...COUNT,
      description: "The longest that a waiting task was seen to have waited.",
    },
  }),
  HostOverview: objectSchema({
    host: TEXT,
    attempts: COUNT,
    succeeded: COUNT,
    success: SHARE,
    p50_ms: PERCENTILE,
    p95_ms: PERCENTILE,
    given_up: { ...COUNT, description: "Deliveries that are given up now, whenever that was." },
    refused: { ...COUNT, description: "Deliveries that are refused now, whenever that was." },
    retrying: RETRYING,
    last_error: nullable(
      objectSchema({
        at: TIME,
        error: nullable(TEXT),
        http_status: nullable({ type: "integer" }),
        task_id: nullable({ type: "string", format: "uuid" }),
      }),
    ),
  }),
};

import { nullable, objectSchema, schemaRef, type JsonSchema } from "./json-schema.ts";

/** What those are shown who look for tasks and for what became of them; part of the schemas in api-schema.ts. */

const COUNT: JsonSchema = { type: "integer", minimum: 0 };
const TEXT: JsonSchema = { type: "string" };
const FLAG: JsonSchema = { type: "boolean" };
const TIME: JsonSchema = { type: "string", format: "date-time" };
const UUID: JsonSchema = { type: "string", format: "uuid" };
const KIND: JsonSchema = { type: "string", enum: ["postback", "pingback"] };
const ENDS = ["delivered", "given_up", "refused"];
const OUTCOMES = ["delivered", "failed", "timed_out", "refused", "interrupted"];

const HEADERS: JsonSchema = {
  type: "array",
  items: { type: "array", items: TEXT, minItems: 2, maxItems: 2 },
  description: "Names and values, as they are sent.",
};

/** Where a search or a count goes on, beside what it has found. */
export const EXAMINED_UNTIL: JsonSchema = nullable({
  ...TIME,
  description: "How far back it has looked; null where nothing was looked at.",
});

const FOUND_DELIVERY = objectSchema({
  kind: KIND,
  host: TEXT,
  state: { type: "string", enum: ["waiting", "scheduled", "in_flight", ...ENDS] },
  attempts: { ...COUNT, description: "The one that is under way among them." },
  last: nullable(
    objectSchema({
      outcome: { type: "string", enum: OUTCOMES },
      http_status: nullable({ type: "integer" }),
      error: nullable(TEXT),
      ended_at: TIME,
    }),
  ),
  next_attempt_at: nullable(TIME),
});

const FILTER = objectSchema({
  login: nullable({ ...TEXT, description: "Null is all accounts." }),
  host: nullable(TEXT),
  kind: { enum: ["postback", "pingback", null] },
  states: nullable({
    type: "array",
    items: { type: "string", enum: ["scheduled", "in_flight", ...ENDS] },
  }),
  since: nullable(TIME),
  until: nullable(TIME),
});

export const SEARCH_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  FoundTask: objectSchema({
    id: UUID,
    login: TEXT,
    state: { type: "string", enum: ["queued", "running", "completed", "failed", "cancelled"] },
    status_code: { type: "integer" },
    status_message: TEXT,
    type: nullable(TEXT),
    tag: nullable(TEXT),
    priority: { type: "integer" },
    runs: COUNT,
    created_at: TIME,
    started_at: nullable(TIME),
    completed_at: nullable(TIME),
    start_at: nullable(TIME),
    progress: nullable(schemaRef("Progress")),
    ready: { ...FLAG, description: "Finished by a run, and not collected yet." },
    deliveries: { type: "array", items: FOUND_DELIVERY },
  }),
  HostCount: objectSchema({ host: TEXT, deliveries: COUNT }),
  RedeliveryOrder: objectSchema({
    id: UUID,
    filter: FILTER,
    per_second: { type: "integer", minimum: 1 },
    created_at: TIME,
    redelivered: { ...COUNT, description: "Deliveries that were given a fresh series so far." },
    ended_at: nullable(TIME),
    is_cancelled: FLAG,
  }),
};

/** The schemas of one task's story, of what is shown of tasks and attempts everywhere. */
export function timelineSchemas(fields: {
  readonly task: Readonly<Record<string, JsonSchema>>;
  readonly attempt: Readonly<Record<string, JsonSchema>>;
}): Readonly<Record<string, JsonSchema>> {
  return {
    TimelineTask: objectSchema({
      ...fields.task,
      login: TEXT,
      input_bytes: nullable({ ...COUNT, description: "Of JSON text; null where there is none." }),
      result_bytes: nullable(COUNT),
      error: nullable(objectSchema({ message: TEXT, detail: {} })),
      ready: FLAG,
    }),
    TimelineRun: objectSchema({
      by: objectSchema({
        kind: { enum: ["command", "http", "worker", "function", "echo", null] },
        name: nullable({
          ...TEXT,
          description: "The command's program, the service's origin, or the worker.",
        }),
      }),
      lease_expires_at: nullable(TIME),
    }),
    TimelineDelivery: timelineDelivery(),
    TimelineRequest: timelineRequest(),
    TimelineAttempt: objectSchema({
      ...fields.attempt,
      explanation: { ...TEXT, description: "What became of it and why, without a full stop." },
      retry_after: nullable(TEXT),
      request_headers: {
        ...HEADERS,
        description:
          "What differs between attempts, signed with the secret of now: none where nothing went out, and of older " +
          "attempts with large bodies no signature.",
      },
    }),
  };
}

function timelineDelivery(): JsonSchema {
  return objectSchema({
    delivery_id: { ...TEXT, description: "What the receiver gets as webhook-id." },
    kind: KIND,
    url: TEXT,
    host: TEXT,
    state: { type: "string", enum: ["scheduled", "in_flight", ...ENDS] },
    story: { ...TEXT, description: "Where it stands and why, without a full stop." },
    next_attempt_at: nullable(TIME),
    request: schemaRef("TimelineRequest"),
    attempts: { type: "array", items: schemaRef("TimelineAttempt") },
  });
}

function timelineRequest(): JsonSchema {
  return objectSchema({
    method: { type: "string", enum: ["POST", "GET"] },
    target: { ...TEXT, description: "Path and query, as they stand on the request line." },
    headers: HEADERS,
    body: objectSchema({
      bytes: COUNT,
      text: nullable({ ...TEXT, description: "Null when it is longer than 64 KiB." }),
    }),
    message: { ...TEXT, description: "What X-Signature signs: `body`, or this URL." },
    signature: TEXT,
    signature_next: nullable(TEXT),
  });
}

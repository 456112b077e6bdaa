import { nullable, objectSchema, schemaRef, type JsonSchema } from "./json-schema.ts";

/** What the worker protocol takes and answers (contract §7), as schemas by name; part of those in api-schema.ts. */

const TASK_ID: JsonSchema = { type: "string", format: "uuid" };
const LEASE_ID: JsonSchema = {
  type: "string",
  description: "Opaque; new at every claim. Only the newest lease of a task can end its run.",
};
const REF = { id: TASK_ID, lease_id: LEASE_ID } as const;
const TEXT: JsonSchema = { type: "string" };

/** How many characters of the message of a failed run are kept. */
export const WORKER_MESSAGE_LENGTH_MAX = 1000;

export const WORKER_SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  LeasedTask: objectSchema({
    id: TASK_ID,
    type: TEXT,
    tag: nullable(TEXT),
    marketplace: nullable(TEXT),
    input: { description: "Any JSON, as it was posted; null where there was none." },
    lease_id: LEASE_ID,
    lease_expires_at: {
      type: "string",
      format: "date-time",
      description: "When the task goes back to the queue, unless a heartbeat comes before.",
    },
    run: {
      type: "integer",
      minimum: 1,
      description: "How often the task was started, this time included.",
    },
  }),
  LeaseRef: objectSchema(REF),
  LeaseBeat: objectSchema({ ...REF, progress: schemaRef("Progress") }, { optional: ["progress"] }),
  LeaseCompletion: objectSchema(
    { ...REF, result: { description: "Any JSON; null where there is none." } },
    { optional: ["result"] },
  ),
  LeaseFailure: objectSchema(
    {
      ...REF,
      message: {
        ...TEXT,
        maxLength: WORKER_MESSAGE_LENGTH_MAX,
        description: "What went wrong, for the client.",
      },
      detail: { description: "Any JSON, for the client." },
      retry: {
        type: ["boolean", "null"],
        description: "True queues the task again, false is final; without it the type decides.",
      },
    },
    { optional: ["detail", "retry"] },
  ),
  LeaseOutcome: objectSchema(
    {
      id: { type: ["string", "null"], description: "As it was given; null where it was no text." },
      outcome: {
        type: "string",
        enum: ["ok", "lost", "cancelled"],
        description:
          "`ok`: it counted, now or before. `lost`: the task is not this lease's any more, or there is no such lease. " +
          "`cancelled`: the client has cancelled the task.",
      },
      detail: { ...TEXT, description: "What was wrong with this item, where something was." },
    },
    { optional: ["detail"], description: "Answers stand in the order asked." },
  ),
};

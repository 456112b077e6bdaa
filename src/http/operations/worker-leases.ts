import type { JsonObject } from "../../domain/json.ts";
import type { LeaseBeat, LeaseRef } from "../../domain/lease.ts";
import { parseProgress, PROGRESS_RULE, type TaskProgress } from "../../domain/progress.ts";
import { tasksEnvelopeSchema } from "../api-schema.ts";
import type { FieldRule } from "../fields.ts";
import { nullable, schemaRef } from "../json-schema.ts";
import { answerItems, leaseList, type ItemReader } from "../lease-items.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { NO_QUERY } from "../query.ts";
import type { WorkerDesk } from "../worker-desk.ts";
import { EXAMPLE_LEASE } from "../worker-example.ts";

export interface WorkerLeasesDeps {
  readonly desk: Pick<WorkerDesk, "heartbeat" | "release" | "isDraining">;
}

const LEASES_MAX = 1000;

const PROGRESS: FieldRule<TaskProgress | null> = {
  parse(value) {
    if (value === undefined || value === null) return { value: null };
    const progress = parseProgress(value);
    return progress === null ? { reason: `It must be ${PROGRESS_RULE}.` } : { value: progress };
  },
  schema: nullable(schemaRef("Progress")),
  isRequired: false,
};

const BEAT_FIELDS = {
  leases: leaseList(
    { lengthMin: 0, lengthMax: LEASES_MAX },
    { item: "LeaseBeat", description: "The leases that the worker holds; none only asks `drain`." },
  ),
  progress: PROGRESS,
} as const;

/** POST /v1/worker/heartbeat: extends leases, takes in progress, and tells what was lost or cancelled. */
export function workerHeartbeat({ desk }: WorkerLeasesDeps): Operation {
  return defineOperation({
    method: "POST",
    path: "/v1/worker/heartbeat",
    access: "worker",
    query: NO_QUERY,
    body: { kind: "fields", fields: BEAT_FIELDS, isOptional: false, holds: "leases" },
    doc: {
      id: "heartbeatLeases",
      group: "Workers",
      summary: "Keep leases",
      description:
        "Makes each lease hold for its full time from now on, at most until the type's timeout. Send one every third " +
        "of a lease. `lost` and `cancelled` mean: stop this task, its result counts no more. Progress stands at the " +
        "top for all of the leases, or beside one for it alone; what is no progress there is passed over, and " +
        "`detail` says so.",
      answer: tasksEnvelopeSchema(schemaRef("LeaseOutcome"), {
        drain: {
          type: "boolean",
          description: "The daemon stops: finish what is held, and claim no more.",
        },
      }),
      codes: [50700],
      examples: {
        one: { leases: [EXAMPLE_LEASE], progress: { progress: 0.25, note: "30 of 120 frames" } },
        each: { leases: [{ ...EXAMPLE_LEASE, progress: { progress: 0.5 } }] },
        none: { leases: [] },
      },
    },
    handle: ({ worker: { workerId }, body: { leases, progress } }) =>
      answerItems(leases, {
        reader: beatReader(progress),
        ask: (beats) => desk.heartbeat(workerId, beats),
        fieldsText: () => `"drain":${desk.isDraining}`,
      }),
  });
}

function beatReader(common: TaskProgress | null): ItemReader<LeaseBeat> {
  return {
    members: ["progress"],
    read(item: JsonObject, { ref, note }) {
      const given = item["progress"] ?? null;
      const progress = given === null ? common : parseProgress(given);
      if (given !== null && progress === null) {
        note(`The progress was passed over: it must be ${PROGRESS_RULE}.`);
      }
      return { ...ref, progress };
    },
  };
}

const RELEASE_FIELDS = {
  tasks: leaseList(
    { lengthMin: 1, lengthMax: LEASES_MAX },
    { item: "LeaseRef", description: "The leases to give back." },
  ),
} as const;

const REF_READER: ItemReader<LeaseRef> = { members: [], read: (_item, { ref }) => ref };

/** POST /v1/worker/release: puts tasks back into the queue; their runs do not count. */
export function workerRelease({ desk }: WorkerLeasesDeps): Operation {
  return defineOperation({
    method: "POST",
    path: "/v1/worker/release",
    access: "worker",
    query: NO_QUERY,
    body: { kind: "fields", fields: RELEASE_FIELDS, isOptional: false, holds: "leases" },
    doc: {
      id: "releaseLeases",
      group: "Workers",
      summary: "Give tasks back",
      description:
        "Back to the queue at once, for any worker, and without spending a run: for a worker that stops before it " +
        "has begun a task.",
      answer: tasksEnvelopeSchema(schemaRef("LeaseOutcome")),
      codes: [50700],
      examples: { one: { tasks: [EXAMPLE_LEASE] } },
    },
    handle: ({ worker: { workerId }, body: { tasks } }) =>
      answerItems(tasks, { reader: REF_READER, ask: (leases) => desk.release(workerId, leases) }),
  });
}

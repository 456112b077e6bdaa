import { answerItems } from "../lease-items.ts";
import { parseLong, workerOwner } from "../long-parses.ts";
import { EXAMPLE_LEASE } from "../openapi/worker-example.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

export function workerHeartbeat({ desk, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/heartbeat", {
    access: "worker",
    doc: {
      id: "heartbeatLeases",
      group: "Workers",
      summary: "Keep leases",
      description:
        "Extends each lease to its full time from now on, at most until the type's timeout. Send one every third " +
        "of a lease. `lost` and `cancelled` mean: stop this task, its result no longer counts. Progress is given at the " +
        "top for all of the leases, or beside one for it alone; what is no progress there is passed over, and " +
        "`detail` says so.",
      codes: [50700],
      examples: {
        one: { leases: [EXAMPLE_LEASE], progress: { progress: 0.25, note: "30 of 120 frames" } },
        each: { leases: [{ ...EXAMPLE_LEASE, progress: { progress: 0.5 } }] },
        none: { leases: [] },
      },
    },
    async handle({ worker: { workerId }, bodyBytes: bytes }) {
      const read = await parseLong("beats", { bytes }, { parser, owner: workerOwner(workerId) });
      return answerItems(read, {
        ask: (beats) => desk.heartbeat(workerId, beats),
        fieldsText: () => `"drain":${desk.isDraining}`,
      });
    },
  });
}

export function workerRelease({ desk, parser }: OperationDeps): Operation {
  return defineOperation("POST /v1/worker/release", {
    access: "worker",
    doc: {
      id: "releaseLeases",
      group: "Workers",
      summary: "Give tasks back",
      description:
        "Back to the queue at once, for any worker, and without spending a run: for a worker that stops before it " +
        "has begun a task.",
      codes: [50700],
      examples: { one: { tasks: [EXAMPLE_LEASE] } },
    },
    async handle({ worker: { workerId }, bodyBytes: bytes }) {
      const read = await parseLong("releases", { bytes }, { parser, owner: workerOwner(workerId) });
      return answerItems(read, { ask: (leases) => desk.release(workerId, leases) });
    },
  });
}

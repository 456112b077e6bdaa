import { leasedTaskJson, tasksEnvelope, type LeasedTaskShown } from "../../domain/task/envelope.ts";

/** A worker's requests and answers, as the document shows them. */

export const EXAMPLE_TYPE = "thumbnail";

const TASK: LeasedTaskShown = {
  id: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
  type: EXAMPLE_TYPE,
  tag: "holiday",
  marketplace: null,
  inputText: '{"file":"a.mp4","width":200}',
  leaseId: "k3Vq0sYw8mXo2bTtWc9sVd",
  leaseExpiresAt: Date.parse("2026-01-31T09:00:31.000Z"),
  runs: 1,
  traceText: null,
};

/** The names of its lease. */
export const EXAMPLE_LEASE = { id: TASK.id, lease_id: TASK.leaseId } as const;

export const CLAIM_EXAMPLES = {
  claimed: JSON.parse(tasksEnvelope([{ code: 20000, text: leasedTaskJson(TASK) }])),
  nothing: JSON.parse(tasksEnvelope([])),
} satisfies Readonly<Record<string, unknown>>;

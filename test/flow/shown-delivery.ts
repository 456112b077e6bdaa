import assert from "node:assert/strict";

/** An attempt as `GET /v1/tasks/deliveries/{id}` shows it, its times in milliseconds. */
export interface ShownAttempt {
  readonly number: number;
  readonly dueAt: number;
  /** NaN while it has not started. */
  readonly startedAt: number;
  /** NaN while it has not ended. */
  readonly endedAt: number;
  readonly outcome: string | null;
}

export interface ShownDelivery {
  readonly state: string;
  readonly attempts: readonly ShownAttempt[];
}

/** The one delivery of a task, read from the API; `call` makes a request with the account's key. */
export async function shownDelivery(
  call: (path: string) => Promise<Response>,
  id: string,
): Promise<ShownDelivery> {
  const response = await call(`/v1/tasks/deliveries/${id}`);
  assert.equal(response.status, 200);
  // The contract has this shape.
  const { deliveries } = (await response.json()) as { deliveries: readonly WireDelivery[] };
  const [delivery, ...others] = deliveries;
  assert.ok(delivery !== undefined && others.length === 0, "not exactly one delivery");
  return { state: delivery.state, attempts: delivery.attempts.map(toShown) };
}

interface WireDelivery {
  readonly state: string;
  readonly attempts: readonly WireAttempt[];
}

interface WireAttempt {
  readonly number: number;
  readonly due_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly outcome: string | null;
}

function toShown(attempt: WireAttempt): ShownAttempt {
  return {
    number: attempt.number,
    dueAt: Date.parse(attempt.due_at),
    startedAt: Date.parse(attempt.started_at ?? ""),
    endedAt: Date.parse(attempt.ended_at ?? ""),
    outcome: attempt.outcome,
  };
}

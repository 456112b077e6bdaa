import { timeOrNull, timeText } from "../clock/time.ts";
import type { Attempt, Delivery } from "./delivery.ts";

/** A task's delivery as JSON shows it (contract §3, `deliveries`). */
export function deliveryDocument(taskId: string, { kind, url, state, attempts }: Delivery) {
  const next = attempts.at(-1);
  const isScheduled = next !== undefined && next.startedAt === null;
  return {
    delivery_id: `${taskId}-${kind}`,
    kind,
    url,
    state,
    next_attempt_at: isScheduled ? timeText(next.dueAt) : null,
    attempts: attempts.map(attemptDocument),
  };
}

/** An attempt as JSON shows it; fields that do not apply are null. */
export function attemptDocument(attempt: Attempt) {
  const { number, outcome, error, address, phases, refusal } = attempt;
  return {
    number,
    due_at: timeText(attempt.dueAt),
    started_at: timeOrNull(attempt.startedAt),
    ended_at: timeOrNull(attempt.endedAt),
    outcome,
    http_status: attempt.httpStatus,
    error,
    address,
    phases: {
      dns_ms: phases.dnsMs,
      connect_ms: phases.connectMs,
      tls_ms: phases.tlsMs,
      first_byte_ms: phases.firstByteMs,
    },
    response_excerpt: attempt.responseExcerpt,
    refusal,
  };
}

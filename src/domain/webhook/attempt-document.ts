import { timeOrNull, timeText } from "../clock/time.ts";
import type { Attempt } from "./delivery.ts";

/** An attempt as JSON shows it (contract §3, `deliveries`); fields that do not apply are null. */
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

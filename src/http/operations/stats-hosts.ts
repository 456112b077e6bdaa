import type { HostOverview } from "../../api/stats.ts";
import { timeText } from "../../domain/clock/time.ts";
import { percentile } from "../../domain/stats/duration-histogram.ts";
import { StatusError } from "../../domain/status.ts";
import type { HostFailure, HostTraffic } from "../../store/store.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const HOSTS_MAX = 200;

export function statsHosts({ store, retentionMs, retentionDays }: OperationDeps): Operation {
  return defineOperation("GET /v1/stats/hosts", {
    access: "viewer",
    doc: {
      id: "listHosts",
      group: "Dashboard",
      summary: "See how receivers do",
      description:
        `At most ${HOSTS_MAX} hosts that webhooks were sent to since, or to which some are given up or refused now: ` +
        "those with the most deliveries given up, refused or retried first, then those that fail the most.",
    },
    async handle({ scope, query, now }) {
      const since = query.since ?? now - Math.min(DAY_MS, retentionMs);
      // An hour's grace: a client that asks for everything uses a clock of its own.
      if (since < now - retentionMs - HOUR_MS) throw tooEarly(retentionDays);
      const page = await store.listHostTraffic({
        scope: scope?.accountId ?? null,
        since,
        limit: HOSTS_MAX,
      });
      const hosts = page.hosts.map(hostDocument);
      return { fields: { since: timeText(since), hosts, more: page.hasMore } };
    },
  });
}

function tooEarly(days: number): StatusError {
  const detail = `'since' is too early: what happened is kept for ${days === 1 ? "1 day" : `${days} days`}.`;
  return new StatusError(40000, { detail });
}

function hostDocument(host: HostTraffic): HostOverview {
  const { attempts, succeeded, refused, retrying, durations, lastFailure } = host;
  return {
    host: host.host,
    attempts,
    succeeded,
    success: attempts === 0 ? null : succeeded / attempts,
    p50_ms: percentile(durations, 0.5),
    p95_ms: percentile(durations, 0.95),
    given_up: host.givenUp,
    refused,
    retrying,
    last_error: lastFailure === null ? null : failureDocument(lastFailure),
  };
}

function failureDocument({ endedAt, error, httpStatus, taskId }: HostFailure) {
  return { at: timeText(endedAt), error, http_status: httpStatus, task_id: taskId };
}

import type { SeriesBucket as BucketShown } from "../../api/stats.ts";
import { parseTime, timeText } from "../../domain/clock/time.ts";
import {
  SERIES_BUCKETS_MAX,
  seriesRange,
  toSeries,
  type SeriesBucket,
  type SeriesRange,
} from "../../domain/stats/time-series.ts";
import { StatusError } from "../../domain/status.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

const HOUR_MS = 3_600_000;

export function statsSeries({ store, webhooks }: OperationDeps): Operation {
  return defineOperation("GET /v1/stats/series", {
    access: "viewer",
    doc: {
      id: "getSeries",
      group: "Dashboard",
      summary: "See what happened over time",
      description:
        `The numbers of a time in at most ${SERIES_BUCKETS_MAX} equal steps, from a minute to a day; both ends are moved ` +
        "outwards to whole steps. Beyond the last 25 hours the smallest step is an hour.",
    },
    async handle({ scope, query, now }) {
      const range = chooseRange(query, now);
      const { steps, durations } = await store.findTraffic({
        scope: scope?.accountId ?? null,
        from: range.from,
        to: range.to,
      });
      const buckets = toSeries(range, { steps, durations, now }).map(bucketDocument);
      const fields = {
        from: timeText(range.from),
        to: timeText(range.to),
        step_ms: range.stepMs,
        buckets,
        limit_ms: webhooks.timeoutMs,
      };
      return { fields };
    },
  });
}

function chooseRange(
  query: { readonly from: number | null; readonly to: number | null },
  now: number,
): SeriesRange {
  const to = query.to ?? now;
  const from = query.from ?? to - HOUR_MS;
  const range = seriesRange({ from, to, now });
  if (range !== null) {
    if (isWritten(range.from) && isWritten(range.to)) return range;
    throw new StatusError(40000, { detail: OUT_OF_TIME });
  }
  const detail =
    to > from
      ? `From 'from' to 'to' are at most ${SERIES_BUCKETS_MAX} days.`
      : "'from' must be before 'to', which is now unless given.";
  throw new StatusError(40000, { detail });
}

const OUT_OF_TIME = "The steps from 'from' to 'to' must lie in the years 0000 to 9999.";

// A time that is moved outwards may leave the years that RFC 3339 can write.
function isWritten(timeMs: number): boolean {
  return parseTime(timeText(timeMs)) !== null;
}

function bucketDocument(bucket: SeriesBucket): BucketShown {
  const { posted, completed, failed, cancelled, delivered, refused, attempts, queued } = bucket;
  return {
    at: timeText(bucket.at),
    is_whole: bucket.isWhole,
    posted,
    completed,
    failed,
    cancelled,
    first_attempts: bucket.firstAttempts,
    first_delivered: bucket.firstDelivered,
    delivered,
    given_up: bucket.givenUp,
    refused,
    p50_ms: bucket.p50Ms,
    p95_ms: bucket.p95Ms,
    p99_ms: bucket.p99Ms,
    attempts,
    queued,
    oldest_ms: bucket.oldestMs,
  };
}

import { ApiError, call, type CallOptions } from "./api.ts";

const TIMELINE = "GET /v1/tasks/timeline/:id";

/** The reader's time zone, by its name in the IANA database. */
export function timeZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Reads the timeline of a task, with the times in its sentences in the reader's time zone. */
export async function timelineInZone(options: CallOptions<typeof TIMELINE>) {
  try {
    return await call(TIMELINE, { ...options, query: { time_zone: timeZone() } });
  } catch (error) {
    // A browser may know a zone that is newer than the daemon: then the times are in UTC, and say so.
    if (!(error instanceof ApiError) || error.code !== 40000) throw error;
    return call(TIMELINE, options);
  }
}

import type { AnswerOf, OperationKey } from "../../api/answers.ts";
import { ApiError, call, type CallOptions } from "./api.ts";

/** The reader's time zone, by its name in the IANA database. */
export function timeZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Calls an operation that writes times into sentences, so that they are in the reader's time zone. */
export async function callInZone<const Key extends OperationKey>(
  operation: Key,
  options: CallOptions,
): Promise<AnswerOf<Key>> {
  try {
    return await call(operation, { ...options, query: { time_zone: timeZone() } });
  } catch (error) {
    // A browser may know a zone that is newer than the daemon: then the times are in UTC, and say so.
    if (!(error instanceof ApiError) || error.code !== 40000) throw error;
    return call(operation, options);
  }
}

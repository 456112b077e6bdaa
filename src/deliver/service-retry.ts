const FIRST_WAIT_MS = 250;
const WAIT_MS_MAX = 30_000;

interface ServiceFailure {
  /** How many requests have failed so far, this one included. */
  readonly failures: number;
  /** The answer's `Retry-After`; null or undefined where it had none, or where no answer came. */
  readonly retryAfter: string | null | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** From 0 to 1, without 1. */
  readonly random: number;
}

/**
 * How many milliseconds to wait before the service is asked again. A `Retry-After`, in seconds or as an HTTP date,
 * decides, with 250 ms as the least. Without a valid header, the wait is 250 ms after the first failure and doubles to
 * 30 s. Each wait is shortened by up to a half at random, so that repeats do not coincide.
 */
export function serviceWaitMs({ failures, retryAfter, now, random }: ServiceFailure): number {
  const asked = parseRetryAfter(retryAfter ?? "", now);
  if (asked !== null) return Math.max(asked, FIRST_WAIT_MS);
  return backoffMs(failures, { waitMsMax: WAIT_MS_MAX, random });
}

/** 250 ms after the first failure, doubling to `waitMsMax`, less up to a half at `random` (from 0 to 1, without 1). */
export function backoffMs(
  failures: number,
  { waitMsMax, random }: { readonly waitMsMax: number; readonly random: number },
): number {
  return Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), waitMsMax) * (1 - random / 2);
}

// IMF-fixdate and the older form with the year in two digits (RFC 9110 §5.6.7). Both end in GMT: without that,
// Date.parse reads a time as local, and it accepts many texts that are not HTTP dates.
const HTTP_DATE = /^[A-Z][a-z]{2,8}, \d\d[ -][A-Z][a-z]{2}[ -]\d{2,4} \d\d:\d\d:\d\d GMT$/;

function parseRetryAfter(text: string, now: number): number | null {
  if (/^\d{1,10}$/.test(text)) return Number(text) * 1000;
  const at = HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : at - now;
}

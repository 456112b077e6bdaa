// Kept since the load, as in domain/clock/timers.ts, which has names of Node.
const { setTimeout, clearTimeout } = globalThis;

/** Milliseconds since the epoch. */
export const { now: dateNow } = globalThis.Date;

/** Resolves after so many milliseconds; rejects with the signal's reason as soon as that is aborted. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Does something that is broken off after so many milliseconds, or when the signal is aborted. */
export async function withDeadline<Result>(
  ms: number,
  signal: AbortSignal | undefined,
  action: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal?.reason);
  const late = new DOMException(`There was no answer within ${ms / 1000} s.`, "TimeoutError");
  const timer = setTimeout(() => controller.abort(late), ms);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    return await action(controller.signal);
  } finally {
    clearTimeout(timer);
    // A signal may outlive thousands of requests.
    signal?.removeEventListener("abort", abort);
  }
}

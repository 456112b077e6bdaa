import type { Clock } from "./clock.ts";

/** Settles when `ms` have passed, or as soon as the signal is aborted. */
export function wait(
  ms: number,
  { clock, signal }: { readonly clock: Clock; readonly signal?: AbortSignal },
): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.setTimer(ms, end);
    signal?.addEventListener("abort", end);
  });
}

/**
 * Does the work with a signal that is aborted with the given one, or when `ms` have passed. Unlike with
 * `AbortSignal.any`, nothing of it is left when the work has settled, however long the given signal lives.
 */
export async function withDeadline<Value>(
  ms: number,
  { clock, signal }: { readonly clock: Clock; readonly signal?: AbortSignal },
  work: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const end = new AbortController();
  const abort = (): void => end.abort();
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort);
  const timer = clock.setTimer(ms, abort);
  try {
    return await work(end.signal);
  } finally {
    timer.cancel();
    signal?.removeEventListener("abort", abort);
  }
}

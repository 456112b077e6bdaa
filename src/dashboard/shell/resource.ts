import { useEffect, useRef, useState } from "preact/hooks";

import type { AnswerOf, OperationKey } from "../../api/operations.ts";
import { type CallOptions, call, errorText, isAbort } from "./api.ts";
import { changes } from "./live.ts";
import { shownAccount } from "./session.ts";

/** The data of a screen: its last read, and whether one failed. */
export interface Resource<T> {
  /** Null until it was read once. Stays while it is read again. */
  readonly data: T | null;
  /** Why the last read failed; null when it did not. */
  readonly problem: string | null;
  /** Reads again, after the reader changed something. */
  readonly reload: () => void;
}

/** The manner of a read: `isAutomatic` when the page does it without the reader. */
export interface Load {
  readonly signal: AbortSignal;
  readonly isAutomatic: boolean;
}

interface Timing {
  readonly everyMs?: number;
  readonly pollMs?: number;
}

interface Shown<T> {
  readonly key: string;
  readonly data: T | null;
  readonly problem: string | null;
}

/**
 * Reads the resource that `key` names. Reads again when the key changes, when the selected account changes, and when
 * the stream reports a change, at most once in `everyMs` (0: at every report). With `pollMs` it also reads at that
 * interval while the page is visible, for values that change without a report.
 */
export function useResource<T>(
  key: string,
  load: (call: Load) => Promise<T>,
  { everyMs = 1000, pollMs = 0 }: Timing = {},
): Resource<T> {
  const wanted = `${shownAccount.value ?? ""} ${key}`;
  const [shown, setShown] = useState<Shown<T>>(nothing(wanted));
  const [asked, setAsked] = useState(0);
  const newestLoad = useRef(load);
  newestLoad.current = load;

  useEffect(() => {
    const show = (change: Partial<Shown<T>>) =>
      setShown((before) => ({
        ...(before.key === wanted ? before : nothing<T>(wanted)),
        ...change,
      }));
    return startReading({ everyMs, pollMs, load: (call) => newestLoad.current(call), show });
  }, [wanted, asked, everyMs, pollMs]);

  const { data, problem } = shown.key === wanted ? shown : nothing<T>(wanted);
  return { data, problem, reload: () => setAsked((count) => count + 1) };
}

/** Reads an operation of the API as a resource. */
export function useRead<const Key extends OperationKey>(
  operation: Key,
  options: CallOptions<Key>,
  timing?: Timing,
): Resource<AnswerOf<Key>> {
  const key = `${operation} ${JSON.stringify(options)}`;
  return useResource(key, (load) => call(operation, { ...options, ...load }), timing);
}

function nothing<T>(key: string): Shown<T> {
  return { key, data: null, problem: null };
}

interface ReaderParts<T> {
  readonly everyMs: number;
  readonly pollMs: number;
  readonly load: (call: Load) => Promise<T>;
  readonly show: (change: Partial<Shown<T>>) => void;
}

/** Reads immediately, and again after changes; one read at a time. Returns a function that stops it. */
function startReading<T>({ everyMs, pollMs, load, show }: ReaderParts<T>): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isReading = false;
  let readAt = 0;
  function readSoon(): void {
    const waitMs = Math.max(0, readAt + everyMs - performance.now());
    timer ??= setTimeout(() => {
      timer = undefined;
      void read(true);
    }, waitMs);
  }
  async function read(isAutomatic: boolean): Promise<void> {
    readAt = performance.now();
    if (isReading) return readSoon();
    isReading = true;
    try {
      const data = await load({ signal, isAutomatic });
      if (!signal.aborted) show({ data, problem: null });
    } catch (error) {
      if (!signal.aborted && !isAbort(error)) show({ problem: errorText(error) });
    } finally {
      isReading = false;
    }
  }
  void read(false);
  // A signal calls back with its present value immediately.
  let isFirst = true;
  const unsubscribe = changes.subscribe(() => {
    if (!isFirst && everyMs > 0) readSoon();
    isFirst = false;
  });
  const again = () => {
    if (document.visibilityState === "visible" && !isReading) void read(true);
  };
  const poll = pollMs > 0 ? setInterval(again, pollMs) : undefined;
  return () => {
    stop.abort();
    unsubscribe();
    clearTimeout(timer);
    clearInterval(poll);
  };
}

/** A change that a button requests from the daemon. */
export interface Submission {
  readonly isBusy: boolean;
  /** Why the last one failed; null where it did not. */
  readonly problem: string | null;
  /** Does the work, one at a time; a failure becomes {@link problem}. */
  readonly run: (work: () => Promise<void>) => void;
  readonly clear: () => void;
}

export function useSubmission(): Submission {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  async function attempt(work: () => Promise<void>): Promise<void> {
    setBusy(true);
    setProblem(null);
    try {
      await work();
    } catch (error) {
      if (!isAbort(error)) setProblem(errorText(error));
    } finally {
      setBusy(false);
    }
  }
  return {
    isBusy,
    problem,
    run: (work) => {
      if (!isBusy) void attempt(work);
    },
    clear: () => setProblem(null),
  };
}

import { useEffect, useRef, useState } from "preact/hooks";

import { errorText, isAbort } from "./api.ts";
import { changes } from "./live.ts";
import { shownAccount } from "./session.ts";

/** The data of a screen: its last read, and whether one failed. */
export interface Resource<T> {
  /** Null until it was read once. Stays while it is read again. */
  readonly data: T | null;
  /** Why the last read failed; null when it did not. */
  readonly problem: string | null;
  readonly isLoading: boolean;
  /** Reads again, after the reader changed something. */
  readonly reload: () => void;
}

/** The manner of a read: `isAutomatic` when the page does it without the reader. */
export interface Load {
  readonly signal: AbortSignal;
  readonly isAutomatic: boolean;
}

interface Shown<T> {
  readonly key: string;
  readonly data: T | null;
  readonly problem: string | null;
  readonly isLoading: boolean;
}

/**
 * Reads the resource that `key` names. Reads again when the key changes, when the selected account changes, and when
 * the stream reports a change, at most once in `everyMs` (0: at every report). With `pollMs` it also reads at that
 * interval while the page is visible, for values that change without a report.
 */
export function useResource<T>(
  key: string,
  load: (call: Load) => Promise<T>,
  { everyMs = 1000, pollMs = 0 } = {},
): Resource<T> {
  const wanted = `${shownAccount.value ?? ""} ${key}`;
  const [shown, setShown] = useState<Shown<T>>(nothing(wanted));
  const [asked, setAsked] = useState(0);
  const newestLoad = useRef(load);
  newestLoad.current = load;

  useEffect(() => {
    const reader = new Reader({
      everyMs,
      pollMs,
      load: (call) => newestLoad.current(call),
      show: (change) =>
        setShown((before) => ({
          ...(before.key === wanted ? before : nothing<T>(wanted)),
          ...change,
        })),
    });
    reader.start();
    return () => reader.stop();
  }, [wanted, asked, everyMs, pollMs]);

  const { data, problem, isLoading } = shown.key === wanted ? shown : nothing<T>(wanted);
  return { data, problem, isLoading, reload: () => setAsked((count) => count + 1) };
}

function nothing<T>(key: string): Shown<T> {
  return { key, data: null, problem: null, isLoading: true };
}

interface ReaderParts<T> {
  readonly everyMs: number;
  readonly pollMs: number;
  readonly load: (call: Load) => Promise<T>;
  readonly show: (change: Partial<Shown<T>>) => void;
}

/** Reads at once, and again after changes; one read at a time. */
class Reader<T> {
  readonly #parts: ReaderParts<T>;
  readonly #stop = new AbortController();
  #unsubscribe: (() => void) | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #poll: ReturnType<typeof setInterval> | null = null;
  #isReading = false;
  #readAt = 0;

  constructor(parts: ReaderParts<T>) {
    this.#parts = parts;
  }

  start(): void {
    this.#parts.show({ isLoading: true });
    void this.#read(false);
    // A signal calls back with its present value at once.
    let isFirst = true;
    this.#unsubscribe = changes.subscribe(() => {
      if (!isFirst && this.#parts.everyMs > 0) this.#readSoon();
      isFirst = false;
    });
    if (this.#parts.pollMs > 0) this.#poll = setInterval(() => this.#again(), this.#parts.pollMs);
  }

  stop(): void {
    this.#stop.abort();
    this.#unsubscribe?.();
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#poll !== null) clearInterval(this.#poll);
  }

  #again(): void {
    if (document.visibilityState === "visible" && !this.#isReading) void this.#read(true);
  }

  #readSoon(): void {
    if (this.#timer !== null) return;
    const waitMs = Math.max(0, this.#readAt + this.#parts.everyMs - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = null;
      void this.#read(true);
    }, waitMs);
  }

  async #read(isAutomatic: boolean): Promise<void> {
    if (this.#isReading) {
      this.#readAt = performance.now();
      this.#readSoon();
      return;
    }
    const { load, show } = this.#parts;
    const { signal } = this.#stop;
    this.#isReading = true;
    this.#readAt = performance.now();
    try {
      const data = await load({ signal, isAutomatic });
      if (!signal.aborted) show({ data, problem: null, isLoading: false });
    } catch (error) {
      if (!signal.aborted && !isAbort(error)) show({ problem: errorText(error), isLoading: false });
    } finally {
      this.#isReading = false;
    }
  }
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

/** Keeps the state of a submission. */
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

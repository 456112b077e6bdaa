import { useEffect, useRef, useState } from "preact/hooks";

import type { AskedFilter } from "../../api/redelivery.ts";
import { useSubmission } from "../shell/submission.ts";
import { type Counted, countRecovery, NOTHING_COUNTED } from "./recovery.ts";

/** How far a count is. */
export interface RecoveryCounting {
  /** Null before it was begun. */
  readonly counted: Counted | null;
  readonly isBusy: boolean;
  readonly problem: string | null;
  readonly start: (filter: AskedFilter) => void;
  /** What was counted so far stands. */
  readonly stop: () => void;
  readonly clear: () => void;
}

/** Counts what a recovery would send again, over as many requests as it takes. */
export function useRecoveryCount(): RecoveryCounting {
  const [counted, setCounted] = useState<Counted | null>(null);
  const submission = useSubmission();
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  return {
    counted,
    isBusy: submission.isBusy,
    problem: submission.problem,
    start(filter: AskedFilter): void {
      stop.current = new AbortController();
      const { signal } = stop.current;
      setCounted(NOTHING_COUNTED);
      submission.run(() => countRecovery(filter, { stop: signal, tell: setCounted }));
    },
    stop: () => stop.current.abort(),
    clear(): void {
      stop.current.abort();
      submission.clear();
      setCounted(null);
    },
  };
}

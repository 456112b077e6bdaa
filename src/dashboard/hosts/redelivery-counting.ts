import { useEffect, useRef, useState } from "preact/hooks";

import type { WrittenFilter } from "../../api/search.ts";
import { useSubmission } from "../shell/submission.ts";
import { type Counted, countRedelivery, NOTHING_COUNTED } from "./redelivery.ts";

/** The state of a count. */
export interface RedeliveryCounting {
  /** Null before the count begins. */
  readonly counted: Counted | null;
  readonly isBusy: boolean;
  readonly problem: string | null;
  readonly start: (filter: WrittenFilter) => void;
  /** Stops; the count so far stands. */
  readonly stop: () => void;
  readonly clear: () => void;
}

/** Counts what an order would send again, over as many requests as it takes. */
export function useRedeliveryCount(): RedeliveryCounting {
  const [counted, setCounted] = useState<Counted | null>(null);
  const submission = useSubmission();
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  return {
    counted,
    isBusy: submission.isBusy,
    problem: submission.problem,
    start(filter: WrittenFilter): void {
      stop.current = new AbortController();
      const { signal } = stop.current;
      setCounted(NOTHING_COUNTED);
      submission.run(() => countRedelivery(filter, { stop: signal, report: setCounted }));
    },
    stop: () => stop.current.abort(),
    clear(): void {
      stop.current.abort();
      submission.clear();
      setCounted(null);
    },
  };
}

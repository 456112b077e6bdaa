import { useState } from "preact/hooks";

import { errorText, isAbort } from "./api.ts";

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

import { useState } from "preact/hooks";

import { errorText, isAbort } from "./api.ts";

/** Something that is asked of the daemon by a button. */
export interface Action {
  readonly isBusy: boolean;
  /** Why it was not done; null: no trouble. */
  readonly problem: string | null;
  /** Does it, one at a time; trouble becomes {@link problem}. */
  readonly run: (work: () => Promise<void>) => void;
  readonly clear: () => void;
}

/** Keeps how an action goes. */
export function useAction(): Action {
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

/** The result of one check. */
export interface Finding {
  /** The name of the check: `disk`. Several findings may have the same. */
  readonly check: string;
  readonly verdict: Verdict;
  /** One sentence without a full stop. */
  readonly detail: string;
  /** How to mend it, without a full stop; null where nothing is wrong. */
  readonly remedy: string | null;
}

/** `skipped` could not be looked at; why stands in the detail. */
export type Verdict = "ok" | "warning" | "failed" | "skipped";

export function sound(check: string, detail: string): Finding {
  return { check, verdict: "ok", detail, remedy: null };
}

export function skipped(check: string, detail: string): Finding {
  return { check, verdict: "skipped", detail, remedy: null };
}

/** The daemon works, but somebody should look. */
export function warning(check: string, detail: string, remedy: string): Finding {
  return { check, verdict: "warning", detail, remedy };
}

/** The daemon does not start, or loses or refuses work. */
export function failure(check: string, detail: string, remedy: string): Finding {
  return { check, verdict: "failed", detail, remedy };
}

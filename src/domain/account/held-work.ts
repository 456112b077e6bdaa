/** The work of an account that is held while the account is disabled. */
export interface HeldWork {
  /** Tasks that wait, including those that may not start yet. */
  readonly queued: number;
  /** Tasks that are running: they are told to stop. */
  readonly running: number;
  /** Webhooks that are still to be sent, now or later. */
  readonly webhooks: number;
}

/**
 * Writes the waiting work in words: `12 queued tasks, 3 webhooks`; running tasks will wait as soon as they have
 * stopped.
 */
export function heldText({ queued, webhooks }: HeldWork): string {
  const parts = [
    ...(queued === 0 ? [] : [counted(queued, "queued task")]),
    ...(webhooks === 0 ? [] : [counted(webhooks, "webhook")]),
  ];
  return parts.length === 0 ? "nothing" : parts.join(", ");
}

/** Tells in words what happens to running tasks; null when nothing runs. */
export function stoppedText({ running }: HeldWork): string | null {
  if (running === 0) return null;
  return `${counted(running, "running task")} ${running === 1 ? "is" : "are"} told to stop`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

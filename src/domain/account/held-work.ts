/** What an account has to do that is held while it is disabled. */
export interface HeldWork {
  /** Tasks that wait, those that may not start yet among them. */
  readonly queued: number;
  /** Tasks that run now: they are told to stop. */
  readonly running: number;
  /** Webhooks that are to be sent, now or later. */
  readonly webhooks: number;
}

/** What waits, in words: `12 queued tasks, 3 webhooks`; what runs is to wait as soon as it has stopped. */
export function heldText({ queued, webhooks }: HeldWork): string {
  const parts = [
    ...(queued === 0 ? [] : [counted(queued, "queued task")]),
    ...(webhooks === 0 ? [] : [counted(webhooks, "webhook")]),
  ];
  return parts.length === 0 ? "nothing" : parts.join(", ");
}

/** What becomes of what runs, in words; null where nothing runs. */
export function stoppedText({ running }: HeldWork): string | null {
  if (running === 0) return null;
  return `${counted(running, "running task")} ${running === 1 ? "is" : "are"} told to stop`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

import { systemClock } from "../domain/clock/clock.ts";
import type { SendRequest } from "../domain/webhook/webhook-request.ts";
import type { DueNotes } from "./clock-desk.ts";
import type { Work, WorkWatch } from "./work-watch.ts";

interface UnderWay {
  readonly key: string;
  readonly what: string;
  /** Null while its receiver waits for the clock. */
  work: Work | null;
}

interface Following<T> {
  readonly timeoutMs: number;
  readonly send: () => Promise<T>;
  readonly unsent: T;
}

export interface AttemptWatchParts {
  readonly work: WorkWatch;
  readonly notes: DueNotes;
  /** True to make one attempt after the other, so that a run can be repeated. */
  readonly isRepeatable: boolean;
}

// A receiver without a response by then has the request, so the next one arrives after it.
const LONG_ATTEMPT_MS = 250;

/** Knows which attempts are under way. The clock waits for each, unless its receiver waits for the clock. */
export class AttemptWatch {
  readonly #parts: AttemptWatchParts;
  readonly #underWay = new Set<UnderWay>();
  #aborts = 0;

  constructor(parts: AttemptWatchParts) {
    this.#parts = parts;
  }

  /** Starts no waiting attempt. */
  abort(): void {
    this.#aborts++;
  }

  /**
   * Makes an attempt. The clock waits for it, for no longer than `timeoutMs`. Returns `unsent` for an attempt that was
   * not started.
   */
  async follow<T>(
    { headers, target }: SendRequest,
    { timeoutMs, send, unsent }: Following<T>,
  ): Promise<T> {
    const aborts = this.#aborts;
    if (this.#parts.isRepeatable) await this.#lull();
    if (aborts !== this.#aborts) return unsent;
    const what = `an attempt to ${target.host}`;
    const { "webhook-id": id = "" } = headers;
    const key = keyOf(id, headers["x-attempt"]);
    const forget = this.#parts.notes.noteWebhook("attempt_timeout", { id, ms: timeoutMs });
    const attempt: UnderWay = { key, what, work: this.#parts.work.begin(what) };
    this.#underWay.add(attempt);
    const long = systemClock.setTimer(LONG_ATTEMPT_MS, () => attempt.work?.takesLong());
    // Then it is the clock's time that its receiver takes, and the attempt's deadline is what comes next.
    const timeout = systemClock.setTimer(timeoutMs, () => attempt.work?.end());
    try {
      return await send();
    } finally {
      for (const timer of [long, timeout]) timer.cancel();
      forget();
      this.#underWay.delete(attempt);
      attempt.work?.end();
    }
  }

  /** Lets the clock go on although the attempt's receiver waits for the clock. The returned function undoes that. */
  release(webhookId: string | undefined, number: string | undefined): () => void {
    const key = keyOf(webhookId, number);
    const attempt = [...this.#underWay].find((each) => each.key === key && each.work !== null);
    attempt?.work?.end();
    if (attempt !== undefined) attempt.work = null;
    return () => {
      if (attempt === undefined || !this.#underWay.has(attempt)) return;
      attempt.work = this.#parts.work.begin(attempt.what);
    };
  }

  /** Settles when it is this one's turn: what others lead to has happened. */
  #lull(): Promise<void> {
    return new Promise((resolve) => void this.#parts.work.atLull(resolve, "first"));
  }
}

function keyOf(webhookId = "", number = ""): string {
  return `${webhookId} ${number}`;
}

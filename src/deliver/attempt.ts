import { parseAddress } from "../domain/address/address.ts";
import type { Clock, Timer } from "../domain/clock/clock.ts";
import { setImmediate } from "../domain/clock/timers.ts";
import {
  type AttemptOutcome,
  type AttemptResult,
  NOTHING_HAPPENED,
} from "../domain/webhook/delivery.ts";
import type { UrlRefusal } from "../domain/webhook/webhook-url.ts";

/** The stages of an attempt; each but the last has a phase time of its own. */
type Stage = "dns" | "connect" | "tls" | "answer";

const TIMED_OUT: Readonly<Record<Stage, string>> = {
  dns: "timed out while resolving the name",
  connect: "timed out while connecting",
  tls: "timed out during the TLS handshake",
  answer: "timed out waiting for the response",
};

/** An attempt in flight: its deadline, from the name to the status line, and the facts of its result. */
export class OpenAttempt {
  readonly #clock: Clock;
  /** Made for those who need one: a delivery on a connection that is kept does not. */
  #controller: AbortController | null = null;
  readonly #deadline: Timer;
  readonly #deadlineAt: number;
  readonly #spentMs: Record<Stage, number | null> = {
    dns: null,
    connect: null,
    tls: null,
    answer: null,
  };
  #stage: Stage = "connect";
  #cutBy: "timed_out" | "interrupted" | null = null;
  #whenCut: (() => void) | null = null;
  /** The address that is being or was dialled. */
  address: string | null = null;
  /** Its place among the attempts in flight, which only {@link AttemptsInFlight} sets. */
  place = -1;

  constructor({ clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number }) {
    this.#clock = clock;
    this.#deadlineAt = clock.monotonic() + timeoutMs;
    // A process that was stopped or busy finds its timers due before it reads what arrived in the meantime. One turn
    // of the event loop later an answer that came in time has been read, and the attempt is not counted as unanswered
    // and repeated.
    this.#deadline = clock.setTimer(timeoutMs, () => setImmediate(() => this.#cut("timed_out")));
  }

  /** Aborted when the attempt is cut. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.isCut) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  /** True once the deadline has passed or the attempt was interrupted. */
  get isCut(): boolean {
    return this.#cutBy !== null;
  }

  /** Calls back at most once, when the attempt is cut; null forgets who was to be called. */
  whenCut(listener: (() => void) | null): void {
    this.#whenCut = listener;
  }

  get leftMs(): number {
    return Math.max(0, this.#deadlineAt - this.#clock.monotonic());
  }

  /** Stops the attempt because the process is about to end: its outcome is unknown. */
  interrupt(): void {
    this.#cut("interrupted");
  }

  /** Must be called when the attempt is over. */
  end(): void {
    this.#deadline.cancel();
  }

  /** Does a step of `stage` and adds the time it took to the stage's phase. */
  async timed<T>(stage: Stage, step: () => Promise<T>): Promise<T> {
    this.#stage = stage;
    const startedAt = this.#clock.monotonic();
    const outcome = await step();
    this.#spentMs[stage] =
      (this.#spentMs[stage] ?? 0) + Math.max(0, this.#clock.monotonic() - startedAt);
    return outcome;
  }

  failed(error: string, httpStatus: number | null = null): AttemptResult {
    return this.result("failed", { error, httpStatus });
  }

  /** The result of an attempt that was cut short: its time was up, or it was interrupted. */
  wasCut(): AttemptResult {
    const isLate = this.#cutBy !== "interrupted";
    return this.result(isLate ? "timed_out" : "interrupted", {
      error: isLate ? TIMED_OUT[this.#stage] : "sending was stopped",
    });
  }

  result(outcome: AttemptOutcome, facts: Facts): AttemptResult {
    const { firstByteMs = null, ...rest } = facts;
    return {
      httpStatus: null,
      error: null,
      address: this.address,
      responseExcerpt: null,
      refusal: null,
      retryAfter: null,
      ...rest,
      outcome,
      phases: {
        dnsMs: toTenths(this.#spentMs.dns),
        connectMs: toTenths(this.#spentMs.connect),
        tlsMs: toTenths(this.#spentMs.tls),
        firstByteMs: toTenths(firstByteMs),
      },
    };
  }

  #cut(by: "timed_out" | "interrupted"): void {
    if (this.isCut) return;
    this.#cutBy = by;
    this.#controller?.abort();
    this.#whenCut?.();
  }
}

/** In an array whose last element fills a gap: a Set keeps finished attempts alive in the tables it has outgrown. */
export class AttemptsInFlight {
  readonly #attempts: OpenAttempt[] = [];

  add(attempt: OpenAttempt): void {
    attempt.place = this.#attempts.push(attempt) - 1;
  }

  remove(attempt: OpenAttempt): void {
    const last = this.#attempts.pop();
    if (last === undefined || last === attempt) return;
    this.#attempts[attempt.place] = last;
    last.place = attempt.place;
  }

  interruptAll(): void {
    for (const attempt of this.#attempts) attempt.interrupt();
  }
}

type Facts = Partial<AttemptResult> & { readonly firstByteMs?: number };

function toTenths(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 10) / 10;
}

/** Its lane was closed while the attempt waited for a slot. */
export const TAKEN_BACK = unsent("interrupted", "withdrawn before it was sent");

/** The request could not be made, which is a fault of the program. */
export const NOT_MADE = unsent("failed", "internal error");

function unsent(outcome: AttemptOutcome, error: string): AttemptResult {
  return { ...NOTHING_HAPPENED, outcome, error };
}

/** The result of an attempt whose own record the store rejected: without what the receiver sent. */
export function withoutTexts(result: AttemptResult): AttemptResult {
  const { outcome, httpStatus, phases } = result;
  const error = outcome === "delivered" ? null : "its record could not be stored";
  return { ...NOTHING_HAPPENED, outcome, httpStatus, phases, error };
}

export function toRefused(host: string, { rule, reason }: UrlRefusal): AttemptResult {
  // A literal address stands for itself; a refused name was never resolved.
  const addresses = parseAddress(host) === null ? [] : [host];
  const refusal = { host, addresses, rule };
  return { ...NOTHING_HAPPENED, outcome: "refused", error: reason, refusal };
}

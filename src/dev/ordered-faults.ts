import { createHash } from "node:crypto";

import type { FieldsOf } from "../api/operations.ts";
import { type Clock, wait } from "../domain/clock/clock.ts";
import { randomBytes } from "../domain/id.ts";
import { type AttemptResult, INTERRUPTED } from "../domain/webhook/delivery.ts";
import type { SendRequest } from "../domain/webhook/webhook-request.ts";
import type { DueNotes } from "./clock-desk.ts";
import type { WorkWatch } from "./work-watch.ts";

/** The share of attempts that have a fault, from 0 to 1, and a delay; their inputs in api/dev.ts have the details. */
export type Faults = FieldsOf<"PUT /dev/faults">;

export const NO_FAULTS: Faults = {
  duplicate: 0,
  reorder: 0,
  drop_answer: 0,
  delay_ms: 0,
  crash_during_attempt: 0,
};

export interface FaultParts {
  readonly clock: Clock;
  readonly work: WorkWatch;
  readonly notes: DueNotes;
}

interface Sending {
  readonly sender: AttemptSender;
  readonly signal: AbortSignal;
}

type Share = Exclude<keyof Faults, "delay_ms">;

// Part of what decides which attempts a seed meets: another spelling would change them.
const SEEDED_NAMES: Readonly<Record<Share, string>> = {
  duplicate: "duplicate",
  reorder: "reorder",
  drop_answer: "dropAnswer",
  crash_during_attempt: "crashDuringAttempt",
};

export class OrderedFaults {
  readonly #clock: Clock;
  readonly #notes: DueNotes;
  readonly #heldBack: HeldBackAttempts;
  // It and the attempts' names determine which attempts have a fault, in any order.
  readonly #salt = randomBytes(16).toString("hex");
  /** The deliveries whose last attempt was interrupted: the next one is not, or it would never end. */
  readonly #interrupted = new Set<string>();
  #faults = NO_FAULTS;

  constructor({ clock, work, notes }: FaultParts) {
    this.#clock = clock;
    this.#notes = notes;
    this.#heldBack = new HeldBackAttempts(work);
  }

  get faults(): Faults {
    return this.#faults;
  }

  order(faults: Faults): void {
    this.#faults = faults;
  }

  clear(): void {
    this.order(NO_FAULTS);
    this.#interrupted.clear();
  }

  sender(sender: AttemptSender): AttemptSender {
    let stopped = new AbortController();
    return {
      abort() {
        stopped.abort();
        stopped = new AbortController();
        sender.abort();
      },
      // Samples and the operator's events are not deliveries.
      send: (request) =>
        request.accountId === undefined
          ? sender.send(request)
          : this.#send(request, { sender, signal: stopped.signal }),
    };
  }

  async #send(request: SendRequest, { sender, signal }: Sending): Promise<AttemptResult> {
    const { host } = request.target;
    const { delay_ms: delayMs } = this.#faults;
    const forget = this.#notes.noteWebhook("attempt", { id: nameOf(request), ms: delayMs });
    if (delayMs > 0) await wait(delayMs, { clock: this.#clock, signal });
    forget();
    const letGo = this.#heldBack.take(host);
    try {
      if (letGo === null && this.#has("reorder", request)) await this.#heldBack.wait(host, signal);
      if (signal.aborted) return UNSENT;
      return await this.#attempt(request, sender);
    } finally {
      letGo?.();
    }
  }

  async #attempt(request: SendRequest, sender: AttemptSender): Promise<AttemptResult> {
    const delivery = nameOf(request);
    const mayCrash = !this.#interrupted.delete(delivery);
    const result = await sender.send(request);
    if (result.outcome === "refused" || result.outcome === "interrupted") return result;
    if (this.#has("duplicate", request)) await sender.send(request);
    if (mayCrash && this.#has("crash_during_attempt", request)) {
      this.#interrupted.add(delivery);
      const { address, phases, refusal } = result;
      // As after a crash, except for what is known here.
      return { ...INTERRUPTED, address, phases, refusal };
    }
    const isDropped = result.outcome === "delivered" && this.#has("drop_answer", request);
    return isDropped ? toLost(result) : result;
  }

  #has(fault: Share, request: SendRequest): boolean {
    const share = this.#faults[fault];
    if (share === 0) return false;
    const text = `${this.#salt} ${SEEDED_NAMES[fault]} ${nameOf(request)} ${request.headers["x-attempt"]}`;
    return createHash("sha256").update(text).digest().readUInt32BE() / 2 ** 32 < share;
  }
}

/** The name of a delivery to its receiver, the same at every attempt. */
function nameOf({ headers }: SendRequest): string {
  return headers["webhook-id"] ?? "";
}

const NO_ANSWER = { httpStatus: null, responseExcerpt: null, retryAfter: null };

/** The result of an attempt that was broken off before it began. */
export const UNSENT = INTERRUPTED;

// As where the answer is lost on its way: the receiver has it, and the daemon does not know.
function toLost(result: AttemptResult): AttemptResult {
  const phases = { ...result.phases, firstByteMs: null };
  const error = "timed out waiting for the response";
  return { ...result, ...NO_ANSWER, phases, outcome: "timed_out", error };
}

/** Attempts that let the next one to the same host go first, if there is one. */
export class HeldBackAttempts {
  readonly #work: WorkWatch;
  /** By host: one at most waits for the next one. */
  readonly #waiting = new Map<string, () => void>();

  constructor(work: WorkWatch) {
    this.#work = work;
  }

  /** Settles after the next attempt to the host, at a lull, or when aborted. {@link take} must have found none. */
  async wait(host: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve: go } = Promise.withResolvers<void>();
    this.#waiting.set(host, go);
    const forget = this.#work.atLull(go, "last");
    const give = (): void => go();
    signal.addEventListener("abort", give, { once: true });
    await promise;
    signal.removeEventListener("abort", give);
    forget();
    if (this.#waiting.get(host) === go) this.#waiting.delete(host);
  }

  /** Returns how to let the attempt go that waits for the next one to this host; null if none waits. */
  take(host: string): (() => void) | null {
    const go = this.#waiting.get(host) ?? null;
    this.#waiting.delete(host);
    return go;
  }
}

export interface AttemptSender {
  send(request: SendRequest): Promise<AttemptResult>;
  /** Breaks off everything in flight. */
  abort(): void;
}

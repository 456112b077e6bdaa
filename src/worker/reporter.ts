import { wait } from "../domain/clock/clock.ts";
import { LEASE_BATCH_MAX, type LeaseOutcome, type LeaseRef } from "../domain/lease/lease.ts";
import { waitMsAfter } from "./link.ts";
import { Loop } from "./loop.ts";
import { endingText, parseOutcomes, type Ending, type LeaseNews } from "./message.ts";

/** The daemon's answer to a report; null: it could not be reached. */
export type Reported = LeaseNews | null;

interface Waiting {
  readonly ending: Ending;
  readonly text: string;
  readonly settle: (reported: Reported) => void;
  /** How often a proxy refused this report alone; after the first time it is always sent alone. */
  refusals: number;
  /** Monotonic; the report is not sent before. */
  dueAt: number;
}

// A request with this much text is sent without waiting for more. A larger single result goes alone.
const BATCH_LENGTH_MAX = 1024 ** 2;
const ANSWER_MS_MAX = 30_000;

/** Reports in batches how runs ended. It may repeat a request, because the daemon counts the end of a lease once. */
export class Reporter extends Loop {
  #waiting: readonly Waiting[] = [];
  #countMax = LEASE_BATCH_MAX;
  #failures = 0;

  /** Settles when the daemon has the report, or never will. */
  report(ending: Ending): Promise<Reported> {
    if (this.end.signal.aborted) return Promise.resolve(null);
    return new Promise((settle) => {
      this.#waiting = [...this.#waiting, newWaiting(ending, settle)];
      this.wake();
    });
  }

  /** Gives up a report that a proxy refuses, after a heartbeat returned that its lease is over. */
  drop({ leaseId }: LeaseRef, outcome: LeaseOutcome): void {
    const isDropped = (each: Waiting): boolean =>
      each.refusals > 0 && each.ending.leaseId === leaseId;
    this.#settle(this.#waiting.filter(isDropped), () => ({ outcome, detail: null }));
  }

  /** Settles when the loop has ended and the other reports are given up. */
  override async run(): Promise<void> {
    await super.run();
    for (const { settle } of this.#waiting) settle(null);
  }

  protected async step(): Promise<void> {
    const { clock } = this.parts;
    const now = clock.monotonic();
    const due = this.#waiting.filter(({ dueAt }) => dueAt <= now);
    const batch = nextBatch(due, this.#countMax);
    if (batch.length === 0) {
      return this.wait(Math.min(...this.#waiting.map(({ dueAt }) => dueAt)));
    }
    const waitMs = await this.#send(batch);
    this.#failures = waitMs === null ? 0 : this.#failures + 1;
    // Another end does not shorten the wait: a daemon that is away would get a request at every end.
    if (waitMs !== null) await wait(waitMs, { clock, signal: this.end.signal });
  }

  /** Resolves to null when the next batch can follow, else to how long to wait before this batch is sent again. */
  async #send(batch: readonly Waiting[]): Promise<number | null> {
    const reply = await this.parts.link.ask({
      operation: batch[0]?.ending.kind ?? "complete",
      body: `{"tasks":[${batch.map(({ text }) => text).join(",")}]}`,
      read: (value) =>
        parseOutcomes(
          value,
          batch.map(({ ending }) => ending),
        ),
      timeoutMs: ANSWER_MS_MAX,
      signal: this.end.signal,
    });
    switch (reply.kind) {
      case "answered":
        this.#countMax = Math.min(this.#countMax * 2, LEASE_BATCH_MAX);
        return this.#settle(batch, (i) => reply.read[i] ?? null);
      case "too_large":
        return this.#shrink(batch, reply);
      case "passing":
        return waitMsAfter(this.#failures + 1, reply);
      case "refused":
        return this.#settle(batch, () => null);
      case "aborted":
        return null;
    }
  }

  #settle(batch: readonly Waiting[], outcome: (i: number) => Reported): null {
    this.#waiting = this.#waiting.filter((each) => !batch.includes(each));
    batch.forEach(({ settle }, i) => settle(outcome(i)));
    return null;
  }

  /**
   * Sends smaller batches. A task whose result alone is too large for the daemon fails. A
   * report that only a proxy refuses is repeated.
   */
  #shrink(batch: readonly Waiting[], { isOurs }: { readonly isOurs: boolean }): null {
    const [first] = batch;
    if (first === undefined) return null;
    if (batch.length > 1) {
      this.#countMax = Math.ceil(batch.length / 2);
      return null;
    }
    if (!isOurs) return this.#putOff(first);
    if (first.ending.kind !== "complete") return this.#settle(batch, () => null);
    const { id, leaseId } = first.ending;
    const message = "The result is larger than the daemon takes.";
    const ending: Ending = { kind: "fail", id, leaseId, message, detail: {}, retry: null };
    const instead = newWaiting(ending, (reported) =>
      first.settle(reported && { ...reported, detail: message }),
    );
    this.#waiting = this.#waiting.map((each) => (each === first ? instead : each));
    return null;
  }

  #putOff(refused: Waiting): null {
    const { clock, log } = this.parts;
    refused.refusals++;
    refused.dueAt = clock.monotonic() + waitMsAfter(refused.refusals);
    if (refused.refusals === 1) {
      const facts = { task: refused.ending.id, bytes: Buffer.byteLength(refused.text) };
      log.warn(
        facts,
        "a proxy in front of the daemon refuses the report as too large (HTTP 413); it is repeated while the lease holds. Raise the proxy's limit for request bodies (nginx: client_max_body_size)",
      );
    }
    return null;
  }
}

function newWaiting(ending: Ending, settle: Waiting["settle"]): Waiting {
  return { ending, text: endingText(ending), settle, refusals: 0, dueAt: -Infinity };
}

/** The first ones that ended the same way, as many as fit into one request. */
function nextBatch(waiting: readonly Waiting[], countMax: number): readonly Waiting[] {
  const [first] = waiting;
  const kind = first?.ending.kind;
  let length = 0;
  const end = waiting.findIndex((each, i) => {
    length += each.text.length;
    if (i === 0) return false;
    const isAlone = [first, each].some((one) => one !== undefined && one.refusals > 0);
    return isAlone || each.ending.kind !== kind || i >= countMax || length > BATCH_LENGTH_MAX;
  });
  return end < 0 ? waiting : waiting.slice(0, end);
}

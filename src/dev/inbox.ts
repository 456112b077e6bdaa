import { EventEmitter, once } from "node:events";

import { systemClock, type Clock } from "../domain/clock/clock.ts";
import type { ScriptedAnswer } from "../domain/webhook/inbox.ts";
import type { InboxRequest } from "../http/inbox.ts";
import type { AttemptWatch } from "./attempt-watch.ts";
import type { DueNotes } from "./clock-desk.ts";
import { InboxBoxes, type InboxMessage, type InboxWait } from "./inbox-boxes.ts";
import { judge, valuesOf, type JudgeParts } from "./signature-verdict.ts";
import type { WorkWatch } from "./work-watch.ts";

export interface InboxParts extends JudgeParts {
  readonly clock: Clock;
  readonly work: WorkWatch;
  readonly attempts: AttemptWatch;
  readonly notes: Pick<DueNotes, "note">;
}

const WAITING = { how: "waiting", status: null, after_ms: null } as const;

/** A receiver for tests: it records all requests, and responds as configured. */
export class Inbox {
  readonly #parts: InboxParts;
  readonly boxes = new InboxBoxes();
  /** Emits an event for each message, by the name of its box. */
  readonly #arrivals = new EventEmitter().setMaxListeners(0);
  #seq = 0;

  constructor(parts: InboxParts) {
    this.#parts = parts;
  }

  async wait(box: string, { isWanted, count, ms, gone }: InboxWait): Promise<void> {
    const over = new AbortController();
    const timer = systemClock.setTimer(ms, () => over.abort());
    const signal = AbortSignal.any([gone, over.signal]);
    while (!signal.aborted && this.boxes.messages(box).filter(isWanted).length < count) {
      // Rejects when the wait is over, which the loop looks at.
      await once(this.#arrivals, eventOf(box), { signal }).catch(() => {});
    }
    timer.cancel();
  }

  async receive(request: InboxRequest, gone: AbortSignal): Promise<ScriptedAnswer | null> {
    const { clock, work } = this.#parts;
    this.boxes.requireRoom(request.box);
    const receivedAt = clock.now();
    const recorded = work.begin(`a message to the inbox ${request.box}`);
    try {
      const judgement = await judge(request, this.#parts);
      const seq = ++this.#seq;
      const message: InboxMessage = {
        ...request,
        ...judgement,
        seq,
        receivedAt,
        answered: WAITING,
      };
      const answer = this.boxes.add(message);
      const isReady = answer.kind === "reset" || (answer.kind === "answer" && answer.afterMs === 0);
      // Before the message counts as recorded: the clock must not wait for a caller that waits for the clock.
      const due = isReady || this.#clockReaches(message, { answer, gone });
      this.#arrivals.emit(eventOf(request.box));
      recorded.end();
      const isAnswered = await due;
      message.answered = this.#answered(message, isAnswered ? answer : null);
      return isAnswered ? answer : null;
    } finally {
      recorded.end();
    }
  }

  /** Resolves at the time of the response; with false if the client has disconnected. */
  #clockReaches(
    message: InboxMessage,
    { answer, gone }: { readonly answer: ScriptedAnswer; readonly gone: AbortSignal },
  ): Promise<boolean> {
    const { clock, attempts, notes } = this.#parts;
    const [webhookId] = valuesOf(message, "webhook-id");
    const [attempt] = valuesOf(message, "x-attempt");
    const takeBack = attempts.release(webhookId, attempt);
    if (gone.aborted) return Promise.resolve(false);
    const { taskId, kind } = message;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const ends: (() => void)[] = [() => gone.removeEventListener("abort", left)];
    const end = (isDue: boolean): void => {
      for (const each of ends) each();
      resolve(isDue);
    };
    const left = (): void => end(false);
    gone.addEventListener("abort", left);
    if (answer.kind === "answer") {
      const { afterMs } = answer;
      ends.push(notes.note({ what: "inbox_answer", taskId, kind }, afterMs));
      const timer = clock.setTimer(afterMs, () => {
        // In the same step in which the clock has come here: the next one must wait for this answer.
        takeBack();
        end(true);
      });
      ends.push(() => timer.cancel());
    }
    return promise;
  }

  #answered({ receivedAt }: InboxMessage, answer: ScriptedAnswer | null): InboxMessage["answered"] {
    const after_ms = this.#parts.clock.now() - receivedAt;
    if (answer === null) return { how: "gone", status: null, after_ms };
    if (answer.kind === "answer") return { how: "sent", status: answer.status, after_ms };
    return { how: "reset", status: null, after_ms };
  }
}

// A box may be named like an event that means something to the emitter.
function eventOf(box: string): string {
  return `box ${box}`;
}

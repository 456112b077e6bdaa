import type { Clock } from "../domain/clock/clock.ts";
import { parseWebhookId } from "../domain/webhook/webhook-request.ts";
import type { DueItem } from "../store/store.ts";

/** Knows what falls due that no store does: how what is under way now ends when nothing else ends it. */
export class DueNotes {
  readonly #clock: Clock;
  readonly #items = new Set<DueItem>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes what falls due in `ms`; the function that it answers takes that back. */
  note(what: Omit<DueItem, "at">, ms: number): () => void {
    const item = { ...what, at: this.#clock.now() + ms };
    this.#items.add(item);
    return () => void this.#items.delete(item);
  }

  /** Notes what falls due for a webhook; nothing for one about no task. */
  noteWebhook(what: DueItem["what"], { id, ms }: { readonly id: string; readonly ms: number }) {
    const delivery = parseWebhookId(id);
    return delivery === null ? () => {} : this.note({ what, ...delivery }, ms);
  }

  /** All that is still to come. */
  list(): readonly DueItem[] {
    const now = this.#clock.now();
    return [...this.#items].filter(({ at }) => at > now);
  }
}

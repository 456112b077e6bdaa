import { scopeKey } from "../domain/webhook/delivery-pause.ts";
import type { DeliveryPause, Store } from "../store/store.ts";
import { Loop, type LoopDeps } from "./loop.ts";
import { persist, type PersistDeps } from "./persist.ts";

interface PauseWatchDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "listDeliveryPauses">;
  readonly deliveries: {
    /** Pauses these webhooks and no others. Settles when the lanes that were resumed are known again. */
    pauseOnly(pauses: readonly DeliveryPause[]): Promise<void>;
  };
}

/** Notices which webhooks any process pauses or resumes: a look is one read of a table of few rows. */
export class PauseWatch {
  /** Looks for changes. To be woken once a second, and when this process has made one. */
  readonly loop: Loop;
  readonly #deps: PauseWatchDeps;
  /** The scopes that were paused at the last look. */
  #known = "";

  constructor(deps: PauseWatchDeps) {
    this.#deps = deps;
    this.loop = new Loop({ round: () => this.#look(), failed: deps.failed });
  }

  /** Learns what is paused. To be called before anything is sent. */
  async start(): Promise<void> {
    await this.#look();
  }

  async #look(): Promise<void> {
    const { store, deliveries } = this.#deps;
    const pauses = await persist(() => store.listDeliveryPauses(), this.#deps);
    const known = pauses.map(scopeKey).join("\n");
    if (known === this.#known) return;
    await deliveries.pauseOnly(pauses);
    this.#known = known;
  }
}

import { scopeKey } from "../../domain/webhook/delivery-hold.ts";
import type { DeliveryHold, Store } from "../../store/store.ts";
import { Loop, type LoopDeps } from "../loop.ts";
import { persist, type PersistDeps } from "../persist.ts";

export interface HoldWatchDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "listDeliveryHolds">;
  readonly deliveries: {
    /** Holds these webhooks and no others. Settles when the lanes that were released are known again. */
    holdOnly(holds: readonly DeliveryHold[]): Promise<void>;
  };
}

/** Notices which webhooks any process holds or releases: a look is one read of a table of few rows. */
export class HoldWatch {
  /** Looks for changes. To be woken once a second, and when this process has made one. */
  readonly loop: Loop;
  readonly #deps: HoldWatchDeps;
  /** The scopes that were held at the last look. */
  #known = "";

  constructor(deps: HoldWatchDeps) {
    this.#deps = deps;
    this.loop = new Loop({ round: () => this.#look(), failed: deps.failed });
  }

  /** Learns what is held. To be called before anything is sent. */
  async start(): Promise<void> {
    await this.#look();
  }

  async #look(): Promise<void> {
    const { store, deliveries } = this.#deps;
    const holds = await persist(() => store.listDeliveryHolds(), this.#deps);
    const known = holds.map(scopeKey).join("\n");
    if (known === this.#known) return;
    await deliveries.holdOnly(holds);
    this.#known = known;
  }
}

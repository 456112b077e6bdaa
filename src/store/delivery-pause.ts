import type { DeliveryPause, PauseScope } from "../domain/webhook/delivery-pause.ts";
import type { Audited } from "./audit.ts";

export type { DeliveryPause, PauseScope } from "../domain/webhook/delivery-pause.ts";

/** Remembers which webhooks the operator pauses. */
export interface DeliveryPauseStore {
  /**
   * Pauses the lanes of a scope until they are resumed. Pausing the same scope again keeps the first pause; `too many`
   * changes nothing.
   */
  pauseDeliveries(
    pause: NewDeliveryPause & Audited,
  ): Promise<"paused" | "paused already" | "too many">;
  /** Ends the pause of exactly this scope; returns false if it does not exist. Other pauses may still cover its lanes. */
  resumeDeliveries(scope: PauseScope & Audited): Promise<boolean>;
  /** Lists all pauses, oldest first. Quick: the daemon asks each second. */
  listDeliveryPauses(): Promise<readonly DeliveryPause[]>;
  /**
   * Counts the scheduled attempts of a scope, paused or not, due or not. May take its time without pausing up anything
   * else.
   */
  countScheduled(scope: PauseScope): Promise<number>;
}

export type NewDeliveryPause = PauseScope & Pick<DeliveryPause, "since" | "reason" | "pausedBy">;

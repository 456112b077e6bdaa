import type { DeliveryHold, HoldScope } from "../domain/webhook/delivery-hold.ts";
import type { Audited } from "./audit.ts";

export type { DeliveryHold, HoldScope } from "../domain/webhook/delivery-hold.ts";

/** Remembers which webhooks the operator holds. */
export interface DeliveryHoldStore {
  /**
   * Holds the lanes of a scope until they are released. Holding the same scope again keeps the first hold; `too many`
   * changes nothing.
   */
  holdDeliveries(hold: NewDeliveryHold & Audited): Promise<"held" | "held already" | "too many">;
  /** Ends the hold of exactly this scope; false when there is none. Other holds may still cover its lanes. */
  releaseDeliveries(scope: HoldScope & Audited): Promise<boolean>;
  /** Lists all holds, oldest first. Quick: the daemon asks each second. */
  listDeliveryHolds(): Promise<readonly DeliveryHold[]>;
  /**
   * Counts the scheduled attempts of a scope, held or not, due or not. May take its time without holding up anything
   * else.
   */
  countScheduled(scope: HoldScope): Promise<number>;
}

export type NewDeliveryHold = HoldScope & Pick<DeliveryHold, "since" | "reason" | "heldBy">;

import type { Account } from "../domain/account/account.ts";
import type { HeldWork } from "../domain/account/held-work.ts";
import type { RunRef } from "./lease.ts";

export type { HeldWork } from "../domain/account/held-work.ts";

/** An account that was disabled or enabled, as it is now. */
export interface HoldChange {
  readonly accountId: number;
  readonly isDisabled: boolean;
}

export interface HoldChanges {
  readonly accounts: readonly HoldChange[];
  /** Names the last of these changes, to ask for what comes after it. */
  readonly last: number;
}

/** The part of the store about accounts whose work is held. */
export interface HoldStore {
  /**
   * Disables (a time) or enables (null) an account; disabling twice keeps the first time. What is disabled loses its
   * sessions for good, and from this step on nothing of it is claimed until it is enabled.
   */
  setAccountDisabled(change: { login: string; disabledAt: number | null }): Promise<Account | null>;
  /**
   * The accounts that were disabled or enabled after a change, by whichever process, those that were disabled and
   * enabled again among them; 0 comes before the first. Soon answered where there are none.
   */
  listHoldChanges(query: { after: number }): Promise<HoldChanges>;
  /** What there is of an account to hold, or to go on with. May take its time without holding up anything else. */
  findHeldWork(query: { accountId: number }): Promise<HeldWork>;
  /** Puts a running task back into the queue as if it had not been started. Does nothing to one that is not running. */
  releaseTask(which: RunRef): Promise<void>;
}

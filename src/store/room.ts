import type { StoreError } from "./store-error.ts";

/** What the store says about whether there is room. */
export interface RoomStore {
  /** Why the last write found none (kind `full`), by whomever it was asked for; null once one has found some. */
  shortage(): StoreError | null;
  /** Writes what changes nothing. Rejects with a StoreError where there is no room for it. */
  tryWrite(): Promise<void>;
}

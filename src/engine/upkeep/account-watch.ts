import type { Store } from "../../store/store.ts";
import { persist, type PersistDeps } from "../persist.ts";

/** Who does something when accounts are disabled or enabled. */
export interface AccountListener {
  /** What runs for these accounts is to stop, and what waits for them to end. Told again of one that was disabled before. */
  disabled(accountIds: ReadonlySet<number>): void;
  /** What was held of these accounts may go on. Told of one that was enabled again before anybody heard of it, too. */
  enabled(accountIds: ReadonlySet<number>): void;
}

export interface AccountWatchDeps extends PersistDeps {
  readonly store: Pick<Store, "listHoldChanges">;
  readonly listeners: readonly AccountListener[];
  /** The store can be read no more. */
  readonly failed: (error: unknown) => void;
}

/**
 * Notices which accounts were disabled or enabled, by whichever process: a look is one read of what has changed since the
 * last one. That nothing of a disabled account is claimed is decided in the store, at each claim; this is for what was
 * claimed before, and for what nobody would look for again.
 */
export class AccountWatch {
  readonly #deps: AccountWatchDeps;
  /** The change that was heard of last. */
  #last = 0;
  #looking: Promise<void> | null = null;
  #isDue = false;
  #stopping = false;

  constructor(deps: AccountWatchDeps) {
    this.#deps = deps;
  }

  /** Learns who is disabled. To be called before anything is claimed. */
  async start(): Promise<void> {
    await this.#look();
  }

  /** Looks for changes. To be called once a second, and when this process has made one. */
  tick(): void {
    this.#isDue = true;
    this.#begin();
  }

  /** True when no look is under way. */
  isIdle(): boolean {
    return this.#looking === null;
  }

  /** Settles when no look is under way. */
  async quiet(): Promise<void> {
    await this.#looking;
  }

  /** Begins no look after this. */
  drain(): void {
    this.#stopping = true;
  }

  #begin(): void {
    if (!this.#isDue || this.#looking !== null || this.#stopping) return;
    this.#isDue = false;
    this.#looking = this.#look()
      .catch(this.#deps.failed)
      .finally(() => {
        this.#looking = null;
        // A tick may have come after the look.
        this.#begin();
      });
  }

  async #look(): Promise<void> {
    const { store, listeners } = this.#deps;
    const read = (): ReturnType<typeof store.listHoldChanges> =>
      store.listHoldChanges({ after: this.#last });
    const { accounts, last } = await persist(read, this.#deps);
    this.#last = last;
    const disabled = accounts.filter(({ isDisabled }) => isDisabled);
    const enabled = accounts.filter(({ isDisabled }) => !isDisabled);
    for (const listener of listeners) {
      if (disabled.length > 0) listener.disabled(idsOf(disabled));
      if (enabled.length > 0) listener.enabled(idsOf(enabled));
    }
  }
}

function idsOf(accounts: readonly { readonly accountId: number }[]): ReadonlySet<number> {
  return new Set(accounts.map(({ accountId }) => accountId));
}

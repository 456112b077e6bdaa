import type { Store } from "../../store/store.ts";
import { Loop } from "../loop.ts";
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
  /** Looks for changes. To be woken once a second, and when this process has made one. */
  readonly loop: Loop;
  readonly #deps: AccountWatchDeps;
  /** The change that was heard of last. */
  #last = 0;

  constructor(deps: AccountWatchDeps) {
    this.#deps = deps;
    this.loop = new Loop({ round: () => this.#look(), failed: deps.failed });
  }

  /** Learns who is disabled. To be called before anything is claimed. */
  async start(): Promise<void> {
    await this.#look();
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

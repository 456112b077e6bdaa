import type { Store } from "../../store/store.ts";
import { Loop, type LoopDeps } from "../loop.ts";
import { persist, type PersistDeps } from "../persist.ts";

/** Hears when accounts are disabled or enabled. */
export interface AccountListener {
  /**
   * Runs of these accounts must stop, and waits for them must end. Called again for an account that was already
   * disabled.
   */
  disabled(accountIds: ReadonlySet<number>): void;
  /**
   * Held work of these accounts may go on. Also called for an account that was enabled again before anybody heard of
   * it.
   */
  enabled(accountIds: ReadonlySet<number>): void;
}

export interface AccountWatchDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "listHoldChanges">;
  readonly listeners: readonly AccountListener[];
}

/**
 * Notices which accounts any process disabled or enabled: a look is one read of the changes since the last one. The
 * store decides at each claim that nothing of a disabled account is claimed; this is for earlier claims, and for work
 * that nobody would look for again.
 */
export class AccountWatch {
  /** Looks for changes. To be woken once a second, and when this process has made one. */
  readonly loop: Loop;
  readonly #deps: AccountWatchDeps;
  /** The last change that was noticed. */
  #last = 0;

  constructor(deps: AccountWatchDeps) {
    this.#deps = deps;
    this.loop = new Loop({ round: () => this.#look(), failed: deps.failed });
  }

  /** Learns which accounts are disabled. To be called before anything is claimed. */
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

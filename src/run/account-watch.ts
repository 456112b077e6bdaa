import { Loop, type LoopDeps } from "../deliver/loop.ts";
import { persist, type PersistDeps } from "../deliver/persist.ts";
import type { Store } from "../store/store.ts";

interface AccountWatchDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "listHoldChanges">;
  /**
   * Runs of these accounts must stop, and waits for them must end. Called again for an account that was already
   * disabled.
   */
  readonly disabled: (accountIds: ReadonlySet<number>) => void;
  /**
   * Held work of these accounts may go on. Also called for an account that was enabled again before anybody heard of
   * it.
   */
  readonly enabled: (accountIds: ReadonlySet<number>) => void;
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
    const { store, disabled, enabled } = this.#deps;
    const changes = { after: this.#last };
    const { accounts, last } = await persist(() => store.listHoldChanges(changes), this.#deps);
    this.#last = last;
    const idsOf = (areDisabled: boolean): ReadonlySet<number> =>
      new Set(accounts.flatMap((each) => (each.isDisabled === areDisabled ? each.accountId : [])));
    const [off, on] = [idsOf(true), idsOf(false)];
    if (off.size > 0) disabled(off);
    if (on.size > 0) enabled(on);
  }
}

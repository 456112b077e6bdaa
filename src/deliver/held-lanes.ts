import { scopeKey, scopesOf, type PauseScope } from "../domain/webhook/delivery-pause.ts";
import type { LaneRef } from "../store/store.ts";

/** Lanes whose attempts do not start: their account is disabled, or the operator has paused them. */
export class HeldLanes {
  readonly #accounts = new Set<number>();
  #scopes: ReadonlyMap<string, PauseScope> = new Map();

  /** Disabled accounts. */
  get accounts(): ReadonlySet<number> {
    return this.#accounts;
  }

  /** The number of pauses. */
  get pauses(): number {
    return this.#scopes.size;
  }

  has(lane: LaneRef): boolean {
    if (this.#accounts.has(lane.accountId)) return true;
    if (this.#scopes.size === 0) return false;
    return scopesOf(lane).some((scope) => this.#scopes.has(scopeKey(scope)));
  }

  addAccount(accountId: number): void {
    this.#accounts.add(accountId);
  }

  deleteAccount(accountId: number): void {
    this.#accounts.delete(accountId);
  }

  /** Pauses these scopes and no others. Returns the scopes whose pause ends by that. */
  setScopes(scopes: readonly PauseScope[]): readonly PauseScope[] {
    const before = this.#scopes;
    const now = new Map(scopes.map((scope) => [scopeKey(scope), scope]));
    this.#scopes = now;
    return [...before].flatMap(([key, scope]) => (now.has(key) ? [] : scope));
  }
}

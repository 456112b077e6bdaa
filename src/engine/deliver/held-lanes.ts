import { scopeKey, scopesOf, type HoldScope } from "../../domain/webhook/delivery-hold.ts";
import type { LaneRef } from "../../store/store.ts";

/** The lanes of which nothing is begun: those of disabled accounts, and those that the operator holds. */
export class HeldLanes {
  readonly #accounts = new Set<number>();
  #scopes: ReadonlyMap<string, HoldScope> = new Map();

  /** Disabled accounts. */
  get accounts(): ReadonlySet<number> {
    return this.#accounts;
  }

  /** The number of holds of the operator. */
  get holds(): number {
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

  /** Holds these scopes and no others. Answers what was held before and is not any more. */
  setScopes(scopes: readonly HoldScope[]): readonly HoldScope[] {
    const before = this.#scopes;
    const now = new Map(scopes.map((scope) => [scopeKey(scope), scope]));
    this.#scopes = now;
    return [...before].flatMap(([key, scope]) => (now.has(key) ? [] : scope));
  }
}

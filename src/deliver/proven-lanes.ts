import type { LaneRef } from "../store/store.ts";
import { NEW_ENTRY, RankHeap, type HeapEntry } from "./rank-heap.ts";

/** The most lanes that are remembered; one that is forgotten has to prove itself again. */
export const PROVEN_MAX = 10_000;

/** An account's proven hosts, those that proved themselves longest ago first. */
interface ProvenHosts extends HeapEntry {
  readonly accountId: number;
  readonly hosts: Set<string>;
}

/**
 * The lanes whose host answered, or failed quickly, the last time. Only the account's own attempts count: an account
 * whose URLs hang at a host does not slow down another whose URLs at the same host answer. When there are too many, the
 * account with the most forgets its oldest: an account with a million names makes nobody else prove themselves again.
 */
export class ProvenLanes {
  readonly #accounts = new Map<number, ProvenHosts>();
  readonly #byNumber = new RankHeap<ProvenHosts>();
  #size = 0;

  has({ accountId, host }: LaneRef): boolean {
    return this.#accounts.get(accountId)?.hosts.has(host) ?? false;
  }

  /** Answers the lane that is forgotten in its place; null when none is. */
  add({ accountId, host }: LaneRef): LaneRef | null {
    this.delete({ accountId, host });
    const fresh = { accountId, hosts: new Set<string>(), ...NEW_ENTRY };
    const account = this.#accounts.get(accountId) ?? fresh;
    this.#accounts.set(accountId, account);
    account.hosts.add(host);
    this.#size++;
    this.#rank(account);
    return this.#size > PROVEN_MAX ? this.#forget() : null;
  }

  delete({ accountId, host }: LaneRef): void {
    const account = this.#accounts.get(accountId);
    if (account === undefined || !account.hosts.delete(host)) return;
    this.#size--;
    this.#rank(account);
  }

  #forget(): LaneRef | null {
    const most = this.#byNumber.first;
    const [host] = most?.hosts ?? [];
    if (most === undefined || host === undefined) return null;
    const lane = { accountId: most.accountId, host };
    this.delete(lane);
    return lane;
  }

  #rank(account: ProvenHosts): void {
    account.rank = -account.hosts.size;
    if (account.hosts.size > 0) return this.#byNumber.put(account);
    this.#byNumber.remove(account);
    this.#accounts.delete(account.accountId);
  }
}

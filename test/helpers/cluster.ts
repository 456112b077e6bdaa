import type { Clock } from "../../src/domain/clock/clock.ts";
import type { ChangeListener, Changes, Cluster, NodeRole, Store } from "../../src/store/store.ts";

/** A scripted cluster. */
export class FakeCluster implements Cluster {
  self = "node-1";
  readonly isShared = true;
  readonly clock: Clock;
  members: readonly string[] = ["node-1"];
  isIn = true;
  /** Null: all. */
  roles: readonly NodeRole[] | null = null;
  readonly #listeners = new Set<() => void>();
  readonly #watchers = new Set<ChangeListener>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  membership(): readonly string[] {
    return this.members;
  }

  isMember(): boolean {
    return this.isIn;
  }

  holds(role: NodeRole): boolean {
    return this.isIn && (this.roles?.includes(role) ?? true);
  }

  tellFacts(): void {}

  resign(): void {
    this.roles = [];
  }

  readonly rejoins: string[] = [];

  rejoin(reason: string): void {
    this.rejoins.push(reason);
    this.change({ isIn: false });
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Changes facts and notifies the listeners. */
  change(facts: Partial<Pick<FakeCluster, "self" | "members" | "isIn" | "roles">>): void {
    Object.assign(this, facts);
    for (const tell of this.#listeners) tell();
  }

  /** Sends a notification of another node. */
  hint(changes: Partial<Changes>): void {
    const none = { accounts: [], types: [], lanes: [], ended: [] };
    for (const tell of this.#watchers) tell({ ...none, ...changes });
  }

  /** The number of listeners. */
  get listeners(): number {
    return this.#listeners.size + this.#watchers.size;
  }

  /** The store of one of several nodes. */
  share(store: Store, overrides: Partial<Store> = {}): Store {
    return {
      ...store,
      cluster: this,
      watch: (listener) => {
        this.#watchers.add(listener);
        const stop = store.watch(listener);
        return () => {
          this.#watchers.delete(listener);
          stop();
        };
      },
      ...overrides,
    };
  }
}

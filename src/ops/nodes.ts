import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { LostNode } from "../domain/stats/condition.ts";
import {
  type FailureCount,
  type ServiceStatus,
  decideServiceStatus,
} from "../domain/stats/health.ts";
import { waitedMs } from "../domain/stats/time-series.ts";
import type { Engine } from "../run/engine.ts";
import { type NodeSummary, type Store, StoreError } from "../store/store.ts";

interface NodeParts {
  readonly store: Pick<Store, "cluster" | "listNodes">;
  readonly engine: Pick<Engine, "health" | "facts">;
}

export interface Health {
  readonly runs: FailureCount;
  readonly receivers: FailureCount;
}

/** Sends this node's facts to the other nodes from now on. `url` returns an empty text while it does not listen. */
export function tellOfNode({ store, engine }: NodeParts, url: () => string): void {
  store.cluster.tellFacts(() => ({ ...engine.facts(), url: url() === "" ? null : url() }));
}

/** Here, and at the others by their last heartbeat. A receiver counts at each node that sent to it. */
export async function healthOfAll({ store, engine }: NodeParts): Promise<Health> {
  const own = engine.health();
  const { self, isShared } = store.cluster;
  if (!isShared) return own;
  const others = ((await unlessUnreadable(store.listNodes())) ?? []).flatMap(
    ({ id, endedAt, facts }) => (id === self || endedAt !== null || facts === null ? [] : facts),
  );
  return {
    runs: sum([own.runs, ...others.map(({ runs }) => runs)]),
    receivers: sum([own.receivers, ...others.map(({ receivers }) => receivers)]),
  };
}

/** True if another node can serve in this daemon's place, also one that has joined since the last heartbeat. */
export async function hasOthers(store: NodeParts["store"]): Promise<boolean> {
  const { cluster } = store;
  if (cluster.membership().length > 1) return true;
  return ((await unlessUnreadable(store.listNodes())) ?? []).some(
    ({ id, endedAt }) => id !== cluster.self && endedAt === null,
  );
}

/** The nodes that ended without leaving and of whose name no node is alive. Names are listed once. */
export function lostNodes(nodes: readonly NodeSummary[]): readonly LostNode[] {
  // The newest first: the last life of a name counts.
  const lastLives = new Map(nodes.toReversed().map((node) => [node.name, node]));
  const alive = new Set(nodes.filter(({ endedAt }) => endedAt === null).map(({ name }) => name));
  return [...lastLives.values()].filter(({ name, isLost }) => isLost && !alive.has(name));
}

/** Why nothing may be begun here, in words for the operator; null while this node is a member. */
export function absence({ cluster }: Pick<Store, "cluster">): string | null {
  if (cluster.isMember()) return null;
  return "the database has been out of reach for seconds, and other nodes may have taken this one's work over";
}

function sum(counts: readonly FailureCount[]): FailureCount {
  return counts.reduce((total, { all, failed }) => ({
    all: total.all + all,
    failed: total.failed + failed,
  }));
}

export interface StatusParts {
  readonly config: Pick<Config, "types">;
  readonly clock: Clock;
  readonly store: Store;
  readonly engine: Engine;
}

const STATUS_AGE_MS_MAX = 1000;

/** The service's status, computed again once it is a second old, because requests for it are not limited. */
export function statusSource(
  { config, clock, store, engine }: StatusParts,
  state: { readonly isAccepting: () => boolean; readonly hasRoom: () => Promise<boolean> },
): () => Promise<ServiceStatus> {
  const types = [...config.types.keys()];
  const decide = async (): Promise<ServiceStatus> =>
    decideServiceStatus({
      isServing: state.isAccepting() && store.fault() === null,
      // A store that cannot be read does not serve, which is in the status already.
      queueAgeMs: waitedMs(await unlessUnreadable(store.findOldestQueued(types)), clock.now()),
      hasRoom: await state.hasRoom(),
      isWorking: !engine.isHalted,
      ...(await healthOfAll({ store, engine })),
    });
  let decidedAt = Number.NEGATIVE_INFINITY;
  let status: Promise<ServiceStatus> | null = null;
  return () => {
    const now = clock.monotonic();
    if (status === null || now - decidedAt >= STATUS_AGE_MS_MAX) {
      status = decide();
      decidedAt = now;
    }
    return status;
  };
}

/** Null if the database cannot be read: that must not hide everything else. */
export async function unlessUnreadable<Value>(read: Promise<Value>): Promise<Value | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}

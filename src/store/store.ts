import type { AccessRequestStore, AccountStore, SessionStore } from "./account.ts";
import type { ChangeStore, ClusterStore } from "./cluster.ts";
import type { DeliveryPauseStore, DeliveryStore, RedeliveryOrderStore } from "./delivery.ts";
import type { LeaseStore, QueueStore, RunStore, WorkerStore } from "./run.ts";
import type { SearchStore, TaskStore } from "./task.ts";
import type { TrafficStore } from "./traffic.ts";
import type { AuditStore, ClockStore, UpkeepStore } from "./upkeep.ts";

export { CLAIM_INPUT_MAX } from "../domain/task/claim-turn.ts";
export type * from "./account.ts";
export * from "./cluster.ts";
export * from "./delivery.ts";
export type * from "./run.ts";
export * from "./store-error.ts";
export * from "./task.ts";
export type * from "./traffic.ts";
export type * from "./upkeep.ts";

/**
 * Everything that postbackd remembers, in the words of its domain. One method is one atomic step: it is on disk
 * entirely when its promise resolves, or it has not happened. Rules live in the domain; a store decides nothing that a
 * second store would have to decide again.
 *
 * Every method may reject with a {@link StoreError}; any other rejection is a bug.
 */
export interface Store
  extends
    AccessRequestStore,
    AccountStore,
    AuditStore,
    ChangeStore,
    ClockStore,
    ClusterStore,
    DeliveryStore,
    DeliveryPauseStore,
    LeaseStore,
    QueueStore,
    RedeliveryOrderStore,
    RunStore,
    SearchStore,
    SessionStore,
    TaskStore,
    TrafficStore,
    UpkeepStore,
    WorkerStore {}

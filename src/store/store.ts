import type { AccessRequestStore } from "./access-request.ts";
import type { AccountStore } from "./account.ts";
import type { AuditStore } from "./audit.ts";
import type { ChangeStore } from "./change.ts";
import type { ClockStore } from "./clock.ts";
import type { ClusterStore } from "./cluster.ts";
import type { DeliveryPauseStore } from "./delivery-pause.ts";
import type { DeliveryStore } from "./delivery.ts";
import type { LeaseStore } from "./lease.ts";
import type { QueueStore } from "./queue.ts";
import type { RedeliveryOrderStore } from "./redelivery-order.ts";
import type { RunStore } from "./run.ts";
import type { SearchStore } from "./search.ts";
import type { SessionStore } from "./session.ts";
import type { TaskStore } from "./task.ts";
import type { TrafficStore } from "./traffic.ts";
import type { UpkeepStore } from "./upkeep.ts";
import type { WorkerStore } from "./worker.ts";

export * from "./bulk-cancel.ts";
export { damage, FileFault, type FileTrouble } from "./file-fault.ts";
export { CLAIM_INPUT_MAX } from "../domain/task/run.ts";
export { TASKS_EXAMINED_MAX } from "./task.ts";
export { StoreError, type StoreErrorKind } from "./store-error.ts";
export type * from "./access-request.ts";
export type * from "./account.ts";
export type * from "./audit.ts";
export type * from "./change.ts";
export type * from "./clock.ts";
export * from "./cluster.ts";
export type * from "./delivery-pause.ts";
export type * from "./delivery.ts";
export type * from "./due-list.ts";
export type * from "./lease.ts";
export type * from "./queue.ts";
export type * from "./redelivery-order.ts";
export type * from "./run.ts";
export type * from "./search.ts";
export type * from "./session.ts";
export type * from "./task.ts";
export type * from "./traffic.ts";
export type * from "./upkeep.ts";
export type * from "./worker.ts";

/**
 * Everything that postbackd remembers, in the words of its domain. One method is one atomic step: it happens as a whole
 * and is on disk when its promise settles, or it has not happened. Rules live in the domain; a store decides nothing
 * that a second store would have to decide again.
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

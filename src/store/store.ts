import type { AccessRequestStore } from "./access-request.ts";
import type { AccountStore } from "./account.ts";
import type { ClockStore } from "./clock.ts";
import type { DeliveryStore } from "./delivery.ts";
import type { LeaseStore } from "./lease.ts";
import type { QueueStore } from "./queue.ts";
import type { RedeliveryOrderStore } from "./redelivery-order.ts";
import type { RoomStore } from "./room.ts";
import type { RunStore } from "./run.ts";
import type {
  DeliveryCountPage,
  DeliveryCountStep,
  TaskSearchPage,
  TaskSearchQuery,
  TaskTimeline,
} from "./search.ts";
import type { SessionStore } from "./session.ts";
import type { StoreError } from "./store-error.ts";
import type { TaskStore } from "./task.ts";
import type {
  AccountOverviewPage,
  AccountOverviewQuery,
  FirstSteps,
  HostTrafficPage,
  HostTrafficQuery,
  Scope,
  Traffic,
  TrafficQuery,
  WorkCounts,
} from "./traffic.ts";
import type { FileCare, StaleBefore } from "./upkeep.ts";
import type { WorkerStore } from "./worker.ts";

export * from "./bulk-cancel.ts";
export { damage, FileFault, type FileTrouble } from "./file-fault.ts";
export { CLAIM_INPUT_MAX } from "./run.ts";
export { StoreError, type StoreErrorKind } from "./store-error.ts";
export type * from "./access-request.ts";
export type * from "./account.ts";
export type * from "./clock.ts";
export type * from "./delivery.ts";
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
 * What postbackd remembers, in the words of its domain. One method is one atomic step: it happens whole
 * and is on disk when its promise settles, or it has not happened. Rules live in the domain; a store
 * decides nothing that a second store would have to decide again.
 *
 * Every method may reject with a {@link StoreError}; anything else it rejects with is a bug.
 */
export interface Store
  extends
    AccessRequestStore,
    AccountStore,
    ClockStore,
    DeliveryStore,
    FileCare,
    LeaseStore,
    QueueStore,
    RedeliveryOrderStore,
    RoomStore,
    RunStore,
    SessionStore,
    TaskStore,
    WorkerStore {
  /**
   * How much there is of everything, now: of an account by one indexed read. What is read of all accounts together
   * (null) may take its time without holding up anything else.
   */
  countWork(scope: Scope): Promise<WorkCounts>;
  /** What happened. May take its time without holding up anything else. */
  findTraffic(query: TrafficQuery): Promise<Traffic>;
  /** Where it was sent. May take its time as well; bounded by how much is read. */
  listHostTraffic(query: HostTrafficQuery): Promise<HostTrafficPage>;
  /** What has ever been done, by an account or by any. Read as {@link countWork}. */
  findFirstSteps(scope: Scope): Promise<FirstSteps>;
  /** Since when the task has waited that has waited longest and may run; null: none waits. Read as {@link countWork}. */
  findOldestWaiting(scope: Scope): Promise<number | null>;
  listAccountOverviews(query: AccountOverviewQuery): Promise<AccountOverviewPage>;
  /** Tasks, newest first. Looks at so many rows and no more; how long that takes has no say in where a page ends. */
  searchTasks(query: TaskSearchQuery): Promise<TaskSearchPage>;
  /** One task of an account, or of any (null); null for an unknown one. Soon answered, as a look at one task. */
  findTimeline(query: { scope: Scope; id: string }): Promise<TaskTimeline | null>;
  /** Counts a part of what {@link countEndedDeliveries} counts. */
  countEndedDeliveriesStep(step: DeliveryCountStep): Promise<DeliveryCountPage>;
  /**
   * Tells, soon after each commit of this process, the accounts whose tasks or deliveries it changed; returns what stops it.
   * Told of nothing while nobody listens.
   */
  watch(listener: (accountIds: readonly number[]) => void): () => void;

  /** Keeps `fresh` under a name under which nothing is kept; answers what is kept, the same to every daemon of the file. */
  keepSecret(secret: { name: "cursors"; fresh: string }): Promise<string>;
  /** Adds to the traffic how much waits at `now`, and for how long. */
  sampleQueues(sample: { now: number }): Promise<void>;
  /** Folds minutes that began before `minutesBefore` into hours, some at a time. */
  foldTraffic(fold: { minutesBefore: number }): Promise<"more" | "done">;

  /**
   * Looks at up to `max` tasks whose retention is over, `now` by the steady clock; fewer when they are large, so that
   * nothing else waits for long. Erases them with all that belongs to them; one that has a webhook still to be sent is
   * kept, and looked at again after an hour. Answers at how many it looked: 0 when none is left.
   */
  eraseExpired(due: { now: number; max: number }): Promise<number>;
  /**
   * Erases up to `max` each of kept answers, decided access requests, ended redelivery orders, sessions and traffic from
   * before their times; else the same.
   */
  eraseStale(due: StaleBefore & { max: number }): Promise<number>;
  /** How much of the file is data: what erased tasks left is not counted. In bytes. */
  usedBytes(): Promise<number>;
  /** Gives a bounded part of the space that erased tasks left back to the file system. */
  reclaimSpace(): Promise<"more" | "done">;
  /** What keeps the store from writing for good; null while it can. */
  fault(): StoreError | null;
  /** Finishes what was asked for before, then lets go of the file. Safe to call twice. */
  close(): Promise<void>;
}

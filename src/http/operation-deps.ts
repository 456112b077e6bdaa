import type { RunnerKind, RunnerType } from "../api/node.ts";
import type { System } from "../api/operator.ts";
import type { AccountLimits } from "../domain/account/quota.ts";
import type { SteadyClock } from "../domain/clock/clock.ts";
import type { IdGenerator } from "../domain/id.ts";
import type {
  LeaseBeat,
  LeaseCompletion,
  LeaseFailure,
  LeaseOutcome,
  LeaseRef,
} from "../domain/lease/lease.ts";
import type { Logger } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import type { StandingCondition } from "../domain/stats/condition.ts";
import type { ServiceStatus } from "../domain/stats/health.ts";
import type { TaskProgress } from "../domain/task/run.ts";
import type { TaskRules } from "../domain/task/task-post.ts";
import type { LaneRef, LeasedTask, Store } from "../store/store.ts";
import type { FloodWatch, RateLimiter, RefusedCredentials } from "./admission/quota.ts";
import type { ListCursors } from "./list-cursor.ts";
import type { LiveFeed } from "./live-feed.ts";
import type { BodyParser } from "./long-bodies.ts";
import type { MetricsFormat } from "./metrics/metrics.ts";
import type { WebhookSchedule } from "./openapi/webhooks.ts";
import type { Operation } from "./operation.ts";
import type { TaskWaiters } from "./task-waiters.ts";
import type { UsageNotes } from "./usage-notes.ts";

/** Everything that the composition root gives to operations; each takes of it what it needs. */
export interface OperationDeps extends ConfiguredFacts {
  /** The operations that a daemon for development adds; null for every other. */
  readonly dev: ((deps: OperationDeps) => readonly Operation[]) | null;
  /** The URL of this daemon, without a path. */
  readonly url: () => string;
  readonly store: ApiStore;
  readonly clock: SteadyClock;
  readonly log: Pick<Logger, "debug">;
  readonly ids: IdGenerator;
  readonly cursors: ListCursors;
  readonly waiters: TaskWaiters;
  readonly liveFeed: Pick<LiveFeed, "open" | "sentChanges">;
  readonly parser: BodyParser;
  readonly keyUsage: UsageNotes<string>;
  readonly workerUsage: UsageNotes<number>;
  readonly sessionUsage: UsageNotes<number>;
  /** Counts refused sign-ins with the refused keys of the same client address. */
  readonly refusedCredentials: Pick<RefusedCredentials, "refuse">;
  /** By client address. */
  readonly accessRequests: RateLimiter;
  /** The same by network: many /64s may belong to one client. */
  readonly accessNetworks: RateLimiter;
  /** By account. */
  readonly postedTasks: RateLimiter;
  /** By account and task: each call may send the whole result to a receiver of another party. Orders count here too. */
  readonly redeliveries: RateLimiter;
  /** By kind and account: what adds rows that no quota counts, such as keys and entries of the audit. */
  readonly uncounted: RateLimiter;
  /** Learns of accounts that are refused for their limits. */
  readonly floods: Pick<FloodWatch, "note">;
  readonly desk: WorkerDesk;
  /** How many requests of workers wait for tasks of a type now. */
  readonly workersWaiting: (type: string) => number;
  /** This node, as it is named among the others. */
  readonly nodeId: () => string;
  /** The progress of the task's run, as it was reported to this node; null when nothing was. */
  readonly progressOf: (id: string) => TaskProgress | null;
  /** Returns a function with the progress of the given running tasks, on any node. */
  readonly findProgress: (ids: readonly string[]) => Promise<(id: string) => TaskProgress | null>;
  /** Reports accepted tasks. */
  readonly posted: Observer["post"];
  /** Notifies the engine of queued tasks of the given types. */
  readonly wake: (types: ReadonlySet<string>) => void;
  /** Notifies the engine of due attempts in these lanes. */
  readonly wakeDeliveries: (lanes: readonly LaneRef[]) => void;
  /** Notifies the engine and all waiting requests that the task was cancelled. */
  readonly cancelled: (id: string) => void;
  /** Notifies the engine that an account was disabled or enabled, once that is on disk. */
  readonly accountsChanged: () => void;
  /** Notifies the engine that deliveries were paused or resumed, once that is on disk. */
  readonly pausesChanged: () => void;
  /** False while the daemon starts, stops or is halted: it could not run what it accepted now. */
  readonly isAccepting: () => boolean;
  readonly notReadyReason: () => Promise<string | null>;
  /** The problems of the database that the operator should fix, as plain sentences. */
  readonly databaseWarnings: () => readonly string[];
  /** The states that the operator should end, in words for the operator. */
  readonly conditions: () => readonly StandingCondition[];
  /** The lack of room on the disk or in the database, in words for the operator; null while there is room. */
  readonly shortage: () => Promise<string | null>;
  /** One account's part of the space for all data, in bytes; 0 means no limit. */
  readonly shareBytes: () => number;
  readonly serviceStatus: () => Promise<ServiceStatus>;
  /** Everything that is counted, as text. */
  readonly metricsText: (format: MetricsFormat) => Promise<string>;
  readonly systemFacts: () => Promise<SystemFacts>;
}

/** The part of the store that operations use. */
export type ApiStore = Pick<
  Store,
  | ("insertTasks" | "findKeptAnswer" | "findTask" | "collectTask" | "cancelTask" | "cancelTasks")
  | ("listReady" | "listTasks" | "searchTasks" | "findTimeline" | "listDeliveries" | "redeliver")
  | "listAttempts"
  | ("countEndedDeliveriesStep" | "orderRedelivery")
  | ("listDeliveryPauses" | "pauseDeliveries" | "resumeDeliveries" | "countScheduled")
  | ("noteAudit" | "listAudit" | "listKeys")
  | ("listRedeliveryOrders" | "cancelRedeliveryOrder")
  | ("createKey" | "revokeKey" | "findAccountData" | "findKeyHolder")
  | ("createSession" | "findSession" | "endSession" | "useSignInLink")
  | ("listAccountOverviews" | "createAccount" | "findAccount" | "findSuspendedWork")
  | ("setAccountDisabled" | "rotateSecret" | "finishRotation")
  | ("insertAccessRequest" | "listAccessRequests" | "countPendingRequests")
  | ("approveAccessRequest" | "denyAccessRequest" | "listTypeWork" | "listWorkers")
  | ("listNodes" | "findDatabaseHealth")
  | ("countWork" | "findTraffic" | "listHostTraffic" | "findOldestWaiting")
>;

/** The facts of the configuration that operations go by. */
interface ConfiguredFacts {
  /** Without the dashboard, neither sessions nor the operations that need one exist. */
  readonly servesDashboard: boolean;
  readonly limits: {
    readonly bodyBytes: number;
    readonly tasksPerPost: number;
    readonly resultBytes: number;
    /** The days that a task may wait to be started. */
    readonly queueDays: number;
    /** For each account without limits of its own. */
    readonly account: AccountLimits;
  };
  readonly retentionMs: number;
  readonly retentionDays: number;
  readonly rules: () => TaskRules;
  readonly webhooks: WebhookSchedule;
  readonly marketplaces: readonly MarketplaceDocument[];
  readonly runnerTypes: () => readonly ConfiguredType[];
  /** Null for a type that is not configured. */
  readonly runnerOf: (type: string) => ShownRunner | null;
  /** Names of the configured types whose tasks workers run. */
  readonly workerTypes: ReadonlySet<string>;
}

/** A marketplace as the operator configured it: its code, its name and everything else it has. */
export type MarketplaceDocument = Readonly<Record<string, unknown>>;

/** The process, its machine and its configuration, as the operator is shown them. Nothing of it is secret. */
export type SystemFacts = Omit<System, "status">;

export type ConfiguredType = Pick<
  RunnerType,
  "name" | "kind" | "runs" | "concurrency" | "timeout_ms" | "lease_ms" | "retries"
>;

/** The runner of a type's tasks, as far as it may be shown: never a command's arguments or a service's path. */
export interface ShownRunner {
  readonly kind: RunnerKind;
  readonly name: string | null;
}

/**
 * The engine's services for worker-protocol.md; the composition root gives them. Its result is on disk.
 * Outcomes come in the order of the request; a lease that was given to another worker is lost to this one.
 */
export interface WorkerDesk {
  /**
   * Claims for a worker. When nothing is queued it waits, for `waitMs` at most, and not for a client that has
   * disconnected.
   */
  claim(order: {
    readonly workerId: number;
    /** Configured worker types, without duplicates. */
    readonly types: readonly string[];
    readonly max: number;
    readonly waitMs: number;
    readonly gone: AbortSignal;
  }): Promise<readonly LeasedTask[]>;
  heartbeat(workerId: number, beats: readonly LeaseBeat[]): Promise<readonly LeaseOutcome[]>;
  complete(
    workerId: number,
    completions: readonly LeaseCompletion[],
  ): Promise<readonly LeaseOutcome[]>;
  fail(workerId: number, failures: readonly LeaseFailure[]): Promise<readonly LeaseOutcome[]>;
  release(workerId: number, leases: readonly LeaseRef[]): Promise<readonly LeaseOutcome[]>;
  /** True while the daemon stops: workers should finish what they hold and claim no more. */
  readonly isDraining: boolean;
}

import type { PostQuota, QuotaExcess } from "../domain/account/quota.ts";
import type { RetentionEnd } from "../domain/clock/service-clock.ts";
import type { LeaseEnding } from "../domain/lease/lease.ts";
import type { TaskProgress } from "../domain/task/run.ts";
import type { TaskSearch } from "../domain/task/task-search.ts";
import type {
  NewTask,
  OpenState,
  RefusedTask,
  Task,
  TaskKey,
  TaskSummary,
} from "../domain/task/task.ts";
import type { DeliveryFilter, DeliveryKind, DeliveryState } from "../domain/webhook/delivery.ts";
import type { DeliveryCount, DeliverySummaryEnd, TaskDeliveries } from "./delivery.ts";
import type { Scope } from "./traffic.ts";
import type { Audited } from "./upkeep.ts";

/** Remembers tasks, for those who post them. */
export interface TaskStore {
  /**
   * Takes in posted tasks, including refused ones, together with the answer to repeat for an idempotency key. For a key
   * that is stored until `steadyAt` or longer, returns its stored response and accepts nothing. Nothing is taken in
   * either when the account would then exceed its quota, which is counted in the same step. Rejects with `overloaded`
   * when the backlog is full.
   */
  insertTasks(post: TaskPost): Promise<TaskPostOutcome>;
  /**
   * Finds the stored response of an idempotency key that is stored until `steadyAt` or longer; null if it does not
   * exist.
   */
  findKeptAnswer(query: {
    accountId: number;
    key: string;
    steadyAt: number;
  }): Promise<KeptAnswer | null>;
  /**
   * Finds an account's task, a large one as its envelope; null for an unknown id and for another account's task alike.
   */
  findTask(look: TaskLook): Promise<FoundTask | null>;
  /** Takes a task out of tasks_ready. */
  collectTask(key: TaskKey): Promise<void>;
  /**
   * Cancels a task that is queued or running: it never runs, is never ready and sends nothing. A task that has
   * ended stays as it is.
   */
  cancelTask(cancel: TaskCancel): Promise<CancelOutcome>;
  /**
   * Cancels the tasks of an account that are in a given state. Other and unknown tasks do not change. Returns the
   * cancelled tasks, by their previous state.
   */
  cancelTasks(order: TaskCancels): Promise<Readonly<Record<OpenState, readonly string[]>>>;
  /**
   * Erases a task of any account and in any state, with everything that belongs to it. `hasWebhooks` erases it even
   * while a webhook of it is still to be sent; that webhook is then not sent.
   */
  eraseTask(
    order: {
      id: string;
      hasWebhooks: boolean;
    } & Audited,
  ): Promise<"erased" | "running" | "to be sent" | "unknown">;
  /**
   * Lists tasks that pass a search, newest first, as clients see them. May take its time without holding up anything
   * else. A page that would be larger than a megabyte ends before `limit`. So does a page that found too little among
   * {@link TASKS_EXAMINED_MAX} tasks, even an empty one. Either names the place where the next page begins.
   */
  listTasks(query: TaskQuery): Promise<TaskPage>;
  /** Lists finished tasks that were not collected, oldest completion first. */
  listReady(query: ReadyQuery): Promise<TaskPage>;
}

export interface TaskPost {
  readonly accountId: number;
  readonly createdAt: number;
  readonly accepted: readonly NewTask[];
  /**
   * The ids of accepted tasks that this node starts at `createdAt`, in the step that inserts them. Their type has a free
   * slot, and no task waits for it. None starts if the account is disabled. Absent for none.
   */
  readonly starting?: ReadonlySet<string>;
  readonly refused: readonly RefusedTask[];
  /** How long the refused ones are kept. */
  readonly refusedUntil: RetentionEnd;
  /** Null when the client sent no idempotency key. */
  readonly idempotency: Idempotency | null;
  readonly quota: PostQuota;
  /** The trace that the tasks were posted in; null for none. */
  readonly traceText: string | null;
}

/** A client's promise that the same key is the same request, and the answer that is kept for it. */
export interface Idempotency extends KeptAnswer {
  readonly key: string;
  /** Now, by the steady clock: an answer that was to be kept until an earlier time is forgotten. */
  readonly steadyAt: number;
  /** How long this answer is kept, by the steady clock. */
  readonly eraseAt: number;
}

export interface KeptAnswer {
  /** SHA-256 of the request's body in lower-case hex. */
  readonly bodyHash: string;
  /** The body of the answer. */
  readonly answerText: string;
}

export type TaskPostOutcome =
  /** The `seq` of each task that was started, in the order of the accepted tasks; absent for none. */
  | { readonly kind: "inserted"; readonly started?: readonly number[] }
  /** Nothing was inserted: this key was used before, for a body with this hash. */
  | ({ readonly kind: "kept" } & KeptAnswer)
  /** Nothing was inserted: the account would exceed its quota. */
  | ({ readonly kind: "over quota" } & QuotaExcess);

export interface TaskCancel extends RetentionEnd {
  readonly accountId: number;
  readonly id: string;
  readonly cancelledAt: number;
}

/**
 * `finished`: the task completed or failed before. `unknown`: the task does not exist, or belongs to another account.
 */
export type CancelOutcome = "cancelled" | "cancelled before" | "finished" | "unknown";

/** A place in a list of tasks: the time by which the list is ordered, and the task's row number. */
export interface TaskPlace {
  readonly timeMs: number;
  readonly seq: number;
}

/**
 * The most tasks that a page may look at: a page that found too little among them ends there. Measured with 300,000
 * tasks of two webhooks each: 20 ms for the most expensive search, in turns with the reads of others.
 */
export const TASKS_EXAMINED_MAX = 20_000;

/** Selects the tasks of a page. */
export interface TaskQuery {
  readonly scope: Scope;
  readonly search: TaskSearch;
  readonly limit: number;
  /** The `next` of the previous page. */
  readonly after: TaskPlace | null;
}

/** Selects ready tasks, which each account collects for itself. */
export interface ReadyQuery extends TaskQuery {
  readonly scope: number;
}

export interface TaskPage<Row = TaskSummary> {
  readonly tasks: readonly Row[];
  /** The start of the next page; null if everything has been read. */
  readonly next: TaskPlace | null;
  /** The time of the last task that was looked at; null when none was. */
  readonly examinedUntil: number | null;
}

/**
 * A task and the progress of its run, which a store of one node does not have. Where nodes share the store and this one
 * knows of none, a large task's envelope has what `findProgress` finds.
 */
export interface TaskLook extends TaskKey {
  readonly progress?: TaskProgress | null;
}

export interface FoundTask {
  /** Without `inputText`, `resultText` and `errorText` when there is an `envelope`. */
  readonly task: Task;
  /** True while the task stands in tasks_ready. */
  readonly isReady: boolean;
  /** Only for a large task: made in another thread, because making it takes milliseconds. */
  readonly envelope?: EnvelopeBytes;
}

/** A task's envelope as UTF-8, and its entity tag. */
export interface EnvelopeBytes {
  readonly bytes: Uint8Array;
  readonly tag: string;
}

/** Searches tasks and deliveries. */
export interface SearchStore {
  /**
   * Lists as `listTasks` does, with the state of each task's webhooks instead of what was posted. Does not look beyond
   * a full page: there is always a next one.
   */
  searchTasks(query: TaskQuery): Promise<TaskPage<FoundTaskRow>>;
  /** Finds one task of an account, or of any (null); null for an unknown one. As quick as a look at one task. */
  findTimeline(query: { scope: Scope; id: string }): Promise<TaskTimeline | null>;
  /** Counts a part of what `countEndedDeliveries` counts. */
  countEndedDeliveriesStep(step: DeliveryCountStep): Promise<DeliveryCountPage>;
}

/** A task that was found, with the state of its webhooks. */
export interface FoundTaskRow extends Omit<TaskSummary, "dataText"> {
  readonly login: string;
  readonly tag: string | null;
  readonly priority: number;
  readonly startAt: number | null;
  readonly isReady: boolean;
  readonly deliveries: readonly FoundDelivery[];
}

export interface FoundDelivery {
  readonly kind: DeliveryKind;
  readonly host: string;
  readonly state: DeliveryState | "waiting";
  /** Attempts so far, including the one under way. */
  readonly attempts: number;
  readonly last: Omit<DeliverySummaryEnd, "number"> | null;
  readonly nextDueAt: number | null;
}

/**
 * Everything about one task. It includes input and result only when a postback has carried them, and else null: they
 * may be large.
 */
export interface TaskTimeline extends TaskDeliveries {
  readonly accountId: number;
  readonly isReady: boolean;
  /** The length of input and result, in bytes of JSON text; null without one. */
  readonly inputBytes: number | null;
  readonly resultBytes: number | null;
  /** Its newest lease; null when no worker has had it. */
  readonly lease: {
    readonly worker: string;
    readonly claimedAt: number;
    readonly expiresAt: number;
    readonly ending: LeaseEnding | null;
  } | null;
}

/** Part of a count: some of the attempts below `before`. */
export interface DeliveryCountStep {
  readonly filter: DeliveryFilter;
  /** Null begins with the newest attempt. */
  readonly before: number | null;
}

export interface DeliveryCountPage extends DeliveryCount {
  /** Where to go on; null when everything has been looked at. */
  readonly next: number | null;
  readonly examinedUntil: number | null;
}

/** The cancelling of many tasks of an account, for clients and the operator alike. */

export interface TaskCancels extends RetentionEnd {
  readonly accountId: number;
  readonly ids: readonly string[];
  readonly states: readonly OpenState[];
  readonly cancelledAt: number;
}

/** Selects open tasks. */
export interface BulkFilter {
  readonly accountId: number;
  readonly states: readonly OpenState[];
  /** The other conditions that must hold. */
  readonly search: Omit<TaskSearch, "states">;
}

/** A place among an account's open tasks: the task that was looked at last. */
export interface OpenTaskPlace extends TaskPlace {
  readonly state: OpenState;
}

/** One step of a walk. It cancels the tasks that it finds; without an `end` it only counts them. */
export interface BulkStep {
  readonly filter: BulkFilter;
  readonly after: OpenTaskPlace | null;
  readonly end: (RetentionEnd & Pick<TaskCancels, "cancelledAt">) | null;
}

export interface BulkPage {
  readonly queued: number;
  readonly running: number;
  /** The tasks that were cancelled. */
  readonly ids: readonly string[];
  /** Null when the walk is at its end. */
  readonly next: OpenTaskPlace | null;
}

// Every other write waits while so many are cancelled: 1.4 ms with the commit (measured with 100,000 waiting tasks,
// 27,000 a second).
const CANCELLED_MAX = 100;
const COUNTED_MAX = 1000;

/**
 * Takes a step of a walk through an account's open tasks, newest first. So it does not meet tasks that are posted
 * meanwhile, and does not race claims, which take the oldest. A list finds the tasks that pass, in turns with the reads
 * of others; the writer gets only those that are to be cancelled.
 */
export async function cancelStep(
  store: Pick<TaskStore, "cancelTasks" | "listTasks">,
  { filter, after, end }: BulkStep,
): Promise<BulkPage> {
  const { accountId, states } = filter;
  const place = after ?? beginOf(states[0]);
  if (place === null) return { queued: 0, running: 0, ids: [], next: null };
  const { state } = place;
  const limit = end === null ? COUNTED_MAX : CANCELLED_MAX;
  const search = { ...filter.search, states: [state] };
  const { tasks, next } = await store.listTasks({ scope: accountId, search, limit, after: place });
  const following = beginOf(states[states.indexOf(state) + 1]);
  const page = { next: next === null ? following : { ...next, state } };
  if (end === null) {
    return { queued: 0, running: 0, [state]: tasks.length, ids: [], ...page };
  }
  const ids = tasks.map(({ id }) => id);
  if (ids.length === 0) return { queued: 0, running: 0, ids, ...page };
  const done = await store.cancelTasks({ accountId, ids, states, ...end });
  const { queued, running } = done;
  return { queued: queued.length, running: running.length, ids: [...queued, ...running], ...page };
}

// Newer than every task.
function beginOf(state: OpenState | undefined): OpenTaskPlace | null {
  return state === undefined ? null : { state, timeMs: Number.MAX_SAFE_INTEGER, seq: 0 };
}

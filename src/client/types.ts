import type { AnyTypes, TaskTypes, TypeName } from "../domain/task/function.ts";
import type { Answers, Bodies, Queries } from "./api.ts";
import type { CallOptions, OwnFields } from "./transport.ts";

/** The parameters and results of a client's methods: every export is part of the package. */
export type { AnyTypes, TaskType, TaskTypes, TypeName } from "../domain/task/function.ts";
export type { CallOptions } from "./transport.ts";

type ApiTask = Answers["GET /v1/tasks/task_get/:id"]["tasks"][number];
/** The states in which a task stays. */
type EndState = "completed" | "failed" | "cancelled";

type ApiNewTask = Extract<Bodies["POST /v1/tasks/task_post"], readonly unknown[]>[number];

/** A task in a list: without its input, result and error. */
export type TaskSummary = Answers["GET /v1/tasks"]["tasks"][number];

/** A task to be posted. */
export type NewTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> = Omit<ApiNewTask, "type" | "input"> & Work<Types, Name>;

type Work<Types extends TaskTypes<Types>, Name extends TypeName<Types>> =
  // Without declared types, the daemon may have a single type, and a task may have no input.
  string extends keyof Types
    ? { readonly type?: Name | null | undefined; readonly input?: unknown }
    : { readonly type: Name; readonly input: Types[Name]["input"] };

/** A task to be posted, of any of the types. */
export type AnyNewTask<Types extends TaskTypes<Types> = AnyTypes> = {
  [Name in TypeName<Types>]: NewTask<Types, Name>;
}[TypeName<Types>];

type Shown = Omit<ApiTask, "type" | "state" | "data" | "result" | "error">;

/** A task that waits or runs. */
export interface OpenTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> extends Shown {
  readonly type: Name;
  readonly state: Exclude<ApiTask["state"], EndState>;
  /** The task as posted, URLs in encoded form. */
  readonly data: NewTask<Types, Name>;
  readonly result: null;
  readonly error: null;
}

export interface CompletedTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> extends Shown {
  readonly type: Name;
  readonly state: "completed";
  /** The task as posted, URLs in encoded form. */
  readonly data: NewTask<Types, Name>;
  readonly result: Types[Name]["result"];
  readonly error: null;
}

/** A task that failed, was refused or was cancelled. */
export interface UncompletedTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> extends Shown {
  /** Of a refused task: as posted, or null. */
  readonly type: Name | null;
  readonly state: Exclude<EndState, "completed">;
  /** The task as posted; of a refused task that may be anything. */
  readonly data: ApiTask["data"];
  readonly result: null;
  /** Null for a cancelled task. */
  readonly error: ApiTask["error"];
}

/** A task that has ended; `state` says how, and with it what `result` and `error` are. */
export type EndedTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> =
  Name extends TypeName<Types> ? CompletedTask<Types, Name> | UncompletedTask<Types, Name> : never;

/** A task; `type` says what its input and result are, and `state` whether there is a result. */
export type Task<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> = Name extends TypeName<Types> ? OpenTask<Types, Name> | EndedTask<Types, Name> : never;

export interface PostOptions extends CallOptions {
  /**
   * Identifies this call: the same call with the same key within 24 hours creates no second task, also after a restart
   * of the program. One of its own unless given. 1 to 255 printable ASCII characters, of `postMany` 1 to 240.
   */
  readonly idempotencyKey?: string | undefined;
}

export interface GetOptions extends CallOptions {
  /** False leaves a finished task in `ready`; else the first answer for it takes it out. */
  readonly collect?: boolean | undefined;
}

/** The filters of a list; pages are the client's affair. */
export type ListOptions = Omit<Queries["GET /v1/tasks"], "cursor" | "limit"> & CallOptions;
export type ReadyOptions = Omit<Queries["GET /v1/tasks/tasks_ready"], "cursor" | "limit"> &
  CallOptions;
export type CancelManyOptions = Omit<Bodies["POST /v1/tasks/cancel"], "cursor"> & CallOptions;
export type RedeliverOptions = NonNullable<Bodies["POST /v1/tasks/redeliver/:id"]> & CallOptions;
export type Attempts = OwnFields<Answers["GET /v1/tasks/attempts"]>;
export type AttemptsOptions = Queries["GET /v1/tasks/attempts"] & CallOptions;
export type TimelineOptions = Queries["GET /v1/tasks/timeline/:id"] & CallOptions;

/** How many tasks were cancelled, or were counted only. */
export interface CancelledCounts {
  readonly queued: number;
  readonly running: number;
}

export type FoundTask = Answers["GET /v1/tasks/search"]["tasks"][number];
export type Delivery = Answers["GET /v1/tasks/deliveries/:id"]["deliveries"][number];
export type Timeline = OwnFields<Answers["GET /v1/tasks/timeline/:id"]>;

/** The account's tasks. */
export interface Tasks<Types extends TaskTypes<Types>> {
  /**
   * Posts a task; it is on disk when this resolves. Rejects with a PostbackdError when it is refused. Sent again
   * as often as needed: it carries an Idempotency-Key.
   */
  post<Name extends TypeName<Types>>(
    task: NewTask<Types, Name>,
    options?: PostOptions,
  ): Promise<OpenTask<Types, Name>>;
  /**
   * Posts any number of tasks and returns the outcome of each, in their order: a refused task is `failed`, with the
   * reason in `error`. It continues after a restart of the daemon. For a program that may end in between, pass an
   * `idempotencyKey` and the same tasks again.
   */
  postMany(
    tasks: Iterable<AnyNewTask<Types>> | AsyncIterable<AnyNewTask<Types>>,
    options?: PostOptions,
  ): Promise<readonly (OpenTask<Types> | UncompletedTask<Types>)[]>;
  /** Posts a task and waits for it. Rejects with a PostbackdError unless it completes. */
  run<Name extends TypeName<Types>>(
    task: NewTask<Types, Name>,
    options?: PostOptions,
  ): Promise<CompletedTask<Types, Name>>;
  get<Name extends TypeName<Types> = TypeName<Types>>(
    id: string,
    options?: GetOptions,
  ): Promise<Task<Types, Name>>;
  /** The task as soon as it has ended, however it did: `AbortSignal.timeout(ms)` bounds that. */
  wait<Name extends TypeName<Types> = TypeName<Types>>(
    id: string,
    options?: GetOptions,
  ): Promise<EndedTask<Types, Name>>;
  /** All tasks, newest first. */
  list(options?: ListOptions): AsyncIterableIterator<TaskSummary>;
  /** Finished tasks that were not collected yet, oldest first; listing collects none. */
  ready(options?: ReadyOptions): AsyncIterableIterator<TaskSummary>;
  /** Tasks by words such as `state:failed type:resize after:2h`; newest first. */
  search(words: string, options?: CallOptions): AsyncIterableIterator<FoundTask>;
  /** Cancels a task that has not ended; a cancelled task stays cancelled. */
  cancel<Name extends TypeName<Types> = TypeName<Types>>(
    id: string,
    options?: CallOptions,
  ): Promise<Task<Types, Name>>;
  /** Cancels all tasks that pass, or with `dry_run` counts them. */
  cancelMany(options: CancelManyOptions): Promise<CancelledCounts>;
  /** Attempts of all webhooks in the order in which they were scheduled: a page, from a cursor on. */
  attempts(options?: AttemptsOptions): Promise<Attempts>;
  /** The task's webhooks and their attempts. */
  deliveries(id: string, options?: CallOptions): Promise<readonly Delivery[]>;
  /** Everything that happened to the task and its webhooks, and why. */
  timeline(id: string, options?: TimelineOptions): Promise<Timeline>;
  /** Sends webhooks again; never repeated by itself. */
  redeliver(id: string, options?: RedeliverOptions): Promise<readonly Delivery[]>;
}

export type Account = OwnFields<Answers["GET /v1/appendix/user_data"]>;
export type Key = Account["keys"][number];
export type NewKey = Answers["POST /v1/appendix/keys"]["key"];
export type NewKeyOptions = NonNullable<Bodies["POST /v1/appendix/keys"]> & CallOptions;
export type Overview = OwnFields<Answers["GET /v1/stats/overview"]>;
export type Series = OwnFields<Answers["GET /v1/stats/series"]>;
export type SeriesOptions = Queries["GET /v1/stats/series"] & CallOptions;
export type Hosts = OwnFields<Answers["GET /v1/stats/hosts"]>;
export type HostsOptions = Queries["GET /v1/stats/hosts"] & CallOptions;
export type RedeliveryOrder = Answers["POST /v1/redeliveries"]["redelivery"];
/** Which deliveries; `login` is the operator's. */
export type RedeliveryFilter = Omit<Bodies["POST /v1/redeliveries/preview"], "cursor" | "login"> &
  CallOptions;
export type RedeliveryOptions = Omit<Bodies["POST /v1/redeliveries"], "login"> & CallOptions;

/** Keys of the account. */
export interface Keys {
  /** Makes a key, which is shown this once; never repeated by itself. */
  create(options?: NewKeyOptions): Promise<NewKey>;
  list(options?: CallOptions): Promise<readonly Key[]>;
  /** From the next request on, the key is refused. */
  revoke(keyId: string, options?: CallOptions): Promise<Key>;
}

/** The account, and its numbers. */
export interface AccountCalls {
  /** Login, webhook secrets, keys, limits, and how many tasks there are. */
  get(options?: CallOptions): Promise<Account>;
  /** The names of the types that a task may have. */
  types(options?: CallOptions): Promise<readonly string[]>;
  overview(options?: CallOptions): Promise<Overview>;
  /** Traffic by minute or hour. */
  series(options?: SeriesOptions): Promise<Series>;
  /** The hosts that webhooks go to. */
  hosts(options?: HostsOptions): Promise<Hosts>;
  /** How much work there is, now and after each change, until the loop is left. */
  changes(options?: CallOptions): AsyncIterableIterator<Change>;
}

/** Orders to send many webhooks again. */
export interface Redeliveries {
  /** How many deliveries an order would be for. */
  count(filter: RedeliveryFilter): Promise<number>;
  /** Never repeated by itself. */
  create(order: RedeliveryOptions): Promise<RedeliveryOrder>;
  list(options?: CallOptions): Promise<readonly RedeliveryOrder[]>;
  cancel(orderId: string, options?: CallOptions): Promise<RedeliveryOrder>;
}

export type Marketplace = Answers["GET /v1/appendix/marketplaces"]["marketplaces"][number];
export type ServiceStatus = OwnFields<Answers["GET /v1/appendix/status"]>;
export type StatusCodeRow = Answers["GET /v1/appendix/status_codes"]["status_codes"][number];
export type AccessRequest = Bodies["POST /v1/access_requests"] & CallOptions;

/** The responses that need no key. */
export interface Reference {
  /** The codes that a task's `marketplace` may have. */
  marketplaces(options?: CallOptions): Promise<readonly Marketplace[]>;
  /** How well the service does, in words. */
  status(options?: CallOptions): Promise<ServiceStatus>;
  /** Every code there is, with its message and HTTP status. */
  statusCodes(options?: CallOptions): Promise<readonly StatusCodeRow[]>;
  /** The API's document, OpenAPI 3.1. */
  openApi(options?: CallOptions): Promise<Answers["GET /openapi.json"]>;
  /** Resolves where the daemon runs. */
  live(options?: CallOptions): Promise<Answers["GET /livez"]>;
  /** Resolves where it takes requests. */
  ready(options?: CallOptions): Promise<Answers["GET /readyz"]>;
  /** Requests an account from the operator, and returns the request's id; never repeated by itself. */
  requestAccess(request: AccessRequest): Promise<string>;
}

/** How much work there is, at that time. */
export type Change = Pick<Answers["GET /v1/stats/overview"], "tasks" | "time">;

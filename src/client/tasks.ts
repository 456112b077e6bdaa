import type { Answers, Bodies, Queries } from "./api.ts";
import { newKey, postAll, postOne, type PostOptions } from "./post.ts";
import { PostbackdError, underKey, type FieldError } from "./settings.ts";
import {
  isEnded,
  onlyTask,
  type AnyNewTask,
  type AnyTypes,
  type CompletedTask,
  type EndedTask,
  type NewTask,
  type OpenTask,
  type Task,
  type TaskSummary,
  type TaskTypes,
  type TypeName,
  type UncompletedTask,
} from "./task.ts";
import {
  type CallOptions,
  DELIVERIES,
  ONE_TASK,
  type OwnFields,
  PAGE_OF_TASKS,
  type Transport,
  dateNow,
  isCursor,
  isNumber,
  isObject,
  isText,
  itemsOf,
  listOf,
  ownFields,
  pause,
} from "./transport.ts";

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
   * Posts a task; it is on disk when this resolves. Rejects with a {@link PostbackdError} when it is refused. Sent again
   * as often as needed: it carries an Idempotency-Key.
   */
  post<Name extends TypeName<Types>>(
    task: NewTask<Types, Name>,
    options?: PostOptions,
  ): Promise<OpenTask<Types, Name>>;
  /**
   * Posts any number of tasks and answers what became of each, in their order: one that was refused is `failed` and
   * says why in `error`. It goes on where it was when a daemon is started anew; for a program that may end in between,
   * give an `idempotencyKey` and the same tasks again.
   */
  postMany(
    tasks: Iterable<AnyNewTask<Types>> | AsyncIterable<AnyNewTask<Types>>,
    options?: PostOptions,
  ): Promise<readonly (OpenTask<Types> | UncompletedTask<Types>)[]>;
  /** Posts a task and waits for it. Rejects with a {@link PostbackdError} unless it completes. */
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
  /** Cancels a task that has not ended; one that is cancelled already stays so. */
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

type ApiTask = Answers["GET /v1/tasks/task_get/:id"]["tasks"][number];

export function tasksOf<Types extends TaskTypes<Types>>(transport: Transport): Tasks<Types> {
  // The caller says what its types take and give: nobody else can.
  const typed = <Shown>(task: ApiTask): Shown => task as Shown;
  return {
    ...listsOf(transport),
    ...webhooksOf(transport),
    post: async (task, options) => typed(await posted(transport, task, withKey(options))),
    postMany: async (tasks, options = {}) =>
      (await postAll(transport, tasks, options)).map((task) => typed(task)),
    run: async (task, options) => {
      const { idempotencyKey, signal } = withKey(options);
      const { id } = await posted(transport, task, { idempotencyKey, signal });
      const ended = await underKey(idempotencyKey, () => endOf(transport, id, { signal }));
      if (ended.state !== "completed") throw failureOf(ended, idempotencyKey);
      return typed(ended);
    },
    get: async (id, options = {}) => typed(await found(transport, id, options)),
    wait: async (id, options = {}) => typed(await endOf(transport, id, options)),
    cancel: async (id, { signal } = {}) => {
      const request = { params: { id }, isRepeatable: true, shape: ONE_TASK, signal } as const;
      return typed(onlyTask(await transport.call("POST /v1/tasks/task_cancel/:id", request)));
    },
    cancelMany: (filter) => cancelledBy(transport, filter),
  };
}

function withKey({ idempotencyKey = newKey(), signal }: PostOptions = {}) {
  return { idempotencyKey, signal };
}

async function posted(
  transport: Transport,
  task: object,
  { idempotencyKey, signal }: ReturnType<typeof withKey>,
): Promise<ApiTask> {
  const accepted = await postOne(transport, task, { idempotencyKey, signal });
  if (accepted.state === "failed") throw failureOf(accepted, idempotencyKey);
  return accepted;
}

function failureOf(task: ApiTask, idempotencyKey: string): PostbackdError {
  const { id, status_code: code, status_message: message, error } = task;
  const reason = error === null || message.includes(error.message) ? "" : ` ${error.message}`;
  const text = `Task ${id}: ${message}${reason}`;
  return new PostbackdError(text, { code, task, idempotencyKey, errors: fieldErrors(error) });
}

/** Which field of a refused task is wrong. */
function fieldErrors(error: ApiTask["error"]): readonly FieldError[] {
  const field: unknown = Object(error?.detail).field;
  if (error === null || typeof field !== "string") return [];
  // As a JSON pointer has it (RFC 6901, section 3).
  const pointer = `/${field.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return [{ pointer, detail: error.message }];
}

interface Look extends GetOptions {
  /** How long the answer may be held. */
  readonly waitSeconds?: number;
}

async function found(
  transport: Transport,
  id: string,
  { collect, waitSeconds, signal }: Look,
): Promise<ApiTask> {
  const headers = waitSeconds === undefined ? {} : { Prefer: `wait=${waitSeconds}` };
  const request = { params: { id }, query: { collect }, headers, shape: ONE_TASK, signal };
  return onlyTask(await transport.call("GET /v1/tasks/task_get/:id", request));
}

/** Proxies often break off after a minute. */
const WAIT_SECONDS = 30;
/** A proxy may take the wish to wait away. */
const LOOK_INTERVAL_MS = 1000;

async function endOf(transport: Transport, id: string, options: GetOptions): Promise<ApiTask> {
  for (;;) {
    const begun = dateNow();
    const task = await found(transport, id, { ...options, waitSeconds: WAIT_SECONDS });
    if (isEnded(task)) return task;
    await pause(LOOK_INTERVAL_MS - (dateNow() - begun), options.signal);
  }
}

async function cancelledBy(
  transport: Transport,
  { signal, ...filter }: CancelManyOptions,
): Promise<CancelledCounts> {
  const counts = { queued: 0, running: 0 };
  const steps = itemsOf(
    (cursor) =>
      transport.call("POST /v1/tasks/cancel", {
        body: { ...filter, cursor },
        shape: COUNTS,
        signal,
      }),
    (step) => [step],
  );
  for await (const { queued, running } of steps) {
    counts.queued += queued;
    counts.running += running;
  }
  return counts;
}

const COUNTS = { queued: isNumber, running: isNumber, next_cursor: isCursor };

type Lists = Pick<Tasks<AnyTypes>, "list" | "ready" | "search">;

function listsOf(transport: Transport): Lists {
  const shape = PAGE_OF_TASKS;
  return {
    list: ({ signal, ...filter } = {}) =>
      itemsOf(
        (cursor) =>
          transport.call("GET /v1/tasks", { query: { ...filter, cursor }, shape, signal }),
        ({ tasks }) => tasks,
      ),
    ready: ({ signal, ...filter } = {}) =>
      itemsOf(
        (cursor) =>
          transport.call("GET /v1/tasks/tasks_ready", {
            query: { ...filter, cursor },
            shape,
            signal,
          }),
        ({ tasks }) => tasks,
      ),
    search: (q, { signal } = {}) =>
      itemsOf(
        (cursor) => transport.call("GET /v1/tasks/search", { query: { q, cursor }, shape, signal }),
        ({ tasks }) => tasks,
      ),
  };
}

type Webhooks = Pick<Tasks<AnyTypes>, "attempts" | "deliveries" | "timeline" | "redeliver">;

const ATTEMPTS = { attempts: listOf(isObject), next_cursor: isText };

function webhooksOf(transport: Transport): Webhooks {
  return {
    attempts: async ({ signal, ...query } = {}) =>
      ownFields(await transport.call("GET /v1/tasks/attempts", { query, shape: ATTEMPTS, signal })),
    deliveries: async (id, { signal } = {}) => {
      const request = { params: { id }, shape: DELIVERIES, signal };
      return (await transport.call("GET /v1/tasks/deliveries/:id", request)).deliveries;
    },
    timeline: async (id, { signal, ...query } = {}) =>
      ownFields(
        await transport.call("GET /v1/tasks/timeline/:id", { params: { id }, query, signal }),
      ),
    redeliver: async (id, { signal, ...body } = {}) => {
      const request = { params: { id }, body, shape: DELIVERIES, signal };
      return (await transport.call("POST /v1/tasks/redeliver/:id", request)).deliveries;
    },
  };
}

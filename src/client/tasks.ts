import type { Answers } from "./api.ts";
import { newKey, onlyTask, postAll, postOne } from "./post.ts";
import { PostbackdError, underKey, type FieldError } from "./settings.ts";
import {
  DELIVERIES,
  ONE_TASK,
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
import type {
  CancelManyOptions,
  CancelledCounts,
  GetOptions,
  PostOptions,
  TaskTypes,
  Tasks,
} from "./types.ts";

type ApiTask = Answers["GET /v1/tasks/task_get/:id"]["tasks"][number];

export function tasksOf<Types extends TaskTypes<Types>>(transport: Transport): Tasks<Types> {
  // Only the caller can declare the inputs and results of its types.
  const typed = <Shown>(task: ApiTask): Shown => task as Shown;
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

/** The states in which a task stays. */
const ENDED: readonly ApiTask["state"][] = ["completed", "failed", "cancelled"];
/** Proxies often break off after a minute. */
const WAIT_SECONDS = 30;
/** A proxy may take the wish to wait away. */
const LOOK_INTERVAL_MS = 1000;

async function endOf(transport: Transport, id: string, options: GetOptions): Promise<ApiTask> {
  for (;;) {
    const begun = dateNow();
    const task = await found(transport, id, { ...options, waitSeconds: WAIT_SECONDS });
    if (ENDED.includes(task.state)) return task;
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

const ATTEMPTS = { attempts: listOf(isObject), next_cursor: isText };

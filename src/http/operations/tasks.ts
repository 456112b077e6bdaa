import { walkOpen } from "../../admin/task.ts";
import { Id } from "../../api/envelope.ts";
import type { InputValues } from "../../api/input.ts";
import type { TASK_INPUTS } from "../../api/task.ts";
import { isExpiredId, retentionEnd } from "../../domain/clock/service-clock.ts";
import { isId } from "../../domain/id.ts";
import { StatusError } from "../../domain/status.ts";
import { summaryJson, taskEnvelope, tasksEnvelope } from "../../domain/task/envelope.ts";
import type { TaskProgress } from "../../domain/task/run.ts";
import { ANY_TASK, type TaskSearch } from "../../domain/task/task-search.ts";
import {
  OPEN_STATES,
  type OpenState,
  type Task,
  type TaskKey,
  type TaskSummary,
  WAIT_SECONDS,
  WAIT_SECONDS_MAX,
  isFinished,
} from "../../domain/task/task.ts";
import {
  type BulkFilter,
  type FoundTask,
  type OpenTaskPlace,
  StoreError,
} from "../../store/store.ts";
import { AccountTurns } from "../admission/turns.ts";
import { ClientGoneError } from "../body.ts";
import { type ListCursors, openCursor } from "../list-cursor.ts";
import { CANCEL_EXAMPLES, GET_EXAMPLES } from "../openapi/examples.ts";
import type { ApiStore, OperationDeps } from "../operation-deps.ts";
import { type Call, type Operation, type WholeAnswer, defineOperation } from "../operation.ts";
import { withEntityTag } from "../respond.ts";

export function taskGet(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/task_get/:id", {
    access: "account",
    id: "getTask",
    summary: "Get a task",
    description:
      "The envelope with one task. The first 200 for a finished task collects it: it leaves tasks_ready, and stays " +
      "readable until it expires. A malformed id gets the response of an unknown id.",
    params: { id: TASK_ID_PARAM },
    headers: {
      Prefer: {
        description: `\`wait=N\` delays the response until the task has ended, for N ≤ ${WAIT_SECONDS_MAX} seconds.`,
        schema: { type: "string", examples: ["wait=30"] },
      },
    },
    answerHeaders: {
      ETag: {
        description:
          "Only for finished tasks, whose envelope no longer changes: for clients with a cache.",
      },
      "Preference-Applied": {
        description: "The accepted wait of `Prefer: wait=N`.",
        schema: { type: "string", pattern: "^wait=\\d+$" },
      },
    },
    answerExamples: GET_EXAMPLES,
    codes: [40401, 40403],
    async handle(call) {
      const key = { accountId: call.holder.accountId, id: call.params["id"] ?? "" };
      const wait = preferredWaitSeconds(call);
      const found = await findOrWait(key, { deps, call, waitMs: (wait ?? 0) * 1000 });
      if (found === null) throw taskNotFound(key.id, { ...deps, now: call.now });
      const applied = wait === null ? {} : { "preference-applied": `wait=${wait}` };
      const running = runningIds([found.task]);
      const progressOf = running.length === 0 ? deps.progressOf : await deps.findProgress(running);
      const whole = { ...envelopeAnswer(found, progressOf(key.id)), headers: applied };
      if (!isFinished(found.task.state)) return whole;
      const answer = withEntityTag(call, whole, found.envelope?.tag);
      const isCollecting = answer.status === 200 && !call.isHead && call.query.collect;
      if (found.isReady && isCollecting) await collectIfPossible(deps.store, key);
      return answer;
    },
  });
}

/** The tasks whose runs may have reported progress. */
export function runningIds(tasks: readonly Pick<Task, "id" | "state">[]): readonly string[] {
  return tasks.flatMap(({ id, state }) => (state === "running" ? id : []));
}

/** How the document shows a task's id in a path. */
export const TASK_ID_PARAM = {
  description: "Id of a task of this account.",
  schema: Id,
  example: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
} as const;

/** The envelope of a task, as it was found. */
export function envelopeAnswer(
  { task, envelope }: FoundTask,
  progress: TaskProgress | null = null,
): WholeAnswer {
  if (envelope !== undefined) return { status: 200, text: "", bytes: envelope.bytes };
  return { status: 200, text: taskEnvelope(task, progress) };
}

/** 40403 for an id from before the retention period, else 40401, for another account's task too. */
export function taskNotFound(
  id: string,
  facts: { readonly now: number; readonly retentionMs: number },
): StatusError {
  return new StatusError(isExpiredId(id, facts) ? 40403 : 40401);
}

async function findOrWait(
  key: TaskKey,
  { deps, call, waitMs }: { deps: OperationDeps; call: Call; waitMs: number },
): Promise<FoundTask | null> {
  if (!isId(key.id)) return null;
  const find = (): Promise<FoundTask | null> =>
    deps.store.findTask({ ...key, progress: deps.progressOf(key.id) });
  if (waitMs === 0) return find();
  const stopped = new AbortController();
  const gone = AbortSignal.any([call.gone(), stopped.signal]);
  // Called before the look, so that an end in between is not missed.
  const ended = deps.waiters.wait(key, { ms: waitMs, gone });
  try {
    const found = await find();
    if (found === null || isFinished(found.task.state)) return found;
    await call.room.whileWaiting(() => ended);
    // A disconnected client gets no 200: a task that ends at this moment must not be collected without a reader.
    if (call.gone().aborted) throw new ClientGoneError("the client closed the connection");
    await call.admitAgain();
    await call.room.forAnswer();
    return await find();
  } finally {
    stopped.abort();
  }
}

// A result that has been read is given out even when the disk is full or locked: the task then stays ready, and the
// next answer collects it.
async function collectIfPossible(store: ApiStore, key: TaskKey): Promise<void> {
  try {
    await store.collectTask(key);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
  }
}

export function tasksReady({ store, cursors }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/tasks_ready", {
    access: "account",
    id: "listReadyTasks",
    summary: "List ready tasks",
    description:
      "Completed and failed tasks that are not collected yet, oldest completion first. The list collects no task.",
    async handle({ holder, query }) {
      const { limit, cursor, ...asked } = query;
      const view = { list: "ready", scope: holder.accountId } as const;
      const { tasks, next } = await store.listReady({
        scope: view.scope,
        search: searchWith(asked),
        limit,
        after: openCursor(cursor, { cursors, ...view }),
      });
      return listAnswer({ tasks, nextCursor: next && cursors.seal(next, view) });
    },
  });
}

export function taskList({ store, cursors, findProgress }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks", {
    access: "account",
    id: "listTasks",
    summary: "List tasks",
    description: "All tasks of the account, newest first, refused and cancelled ones included.",
    async handle({ holder, query }) {
      const { limit, cursor, state, created_after, created_before, ...asked } = query;
      const view = { list: "tasks", scope: holder.accountId } as const;
      const times = { createdAfter: created_after, createdBefore: created_before };
      const { tasks, next } = await store.listTasks({
        scope: view.scope,
        search: searchWith({ ...asked, ...times, states: state && [state] }),
        limit,
        after: openCursor(cursor, { cursors, ...view }),
      });
      const progressOf = await findProgress(runningIds(tasks));
      return listAnswer({ tasks, nextCursor: next && cursors.seal(next, view), progressOf });
    },
  });
}

/** A search with these filters. A parameter that no filter has is a type error: without its mapping it had no effect. */
function searchWith<Given extends Partial<TaskSearch>>(
  filters: Given & Readonly<Record<Exclude<keyof Given, keyof TaskSearch>, never>>,
): TaskSearch {
  return { ...ANY_TASK, ...filters };
}

interface ListPage {
  readonly tasks: readonly TaskSummary[];
  readonly nextCursor: string | null;
  /** For a list that includes running tasks. */
  readonly progressOf?: (id: string) => TaskProgress | null;
}

function listAnswer({ tasks, nextCursor, progressOf }: ListPage): WholeAnswer {
  const items = tasks.map((task) => {
    const progress = progressOf?.(task.id) ?? null;
    return { code: task.statusCode, text: summaryJson(task, { progress }) };
  });
  const fieldText = `"next_cursor":${JSON.stringify(nextCursor)}`;
  return { status: 200, text: tasksEnvelope(items, fieldText) };
}

/**
 * How long the client prefers to wait for a finished task: the N of `Prefer: wait=N`, in seconds. Null when it does not
 * say. Other preferences are ignored, as they should be; an N that is out of range is 40000, because an answer that
 * comes too early looks like one that came late.
 */
export function preferredWaitSeconds(call: Pick<Call, "headers">): number | null {
  const [wait] = call.headers("prefer").flatMap(waitsOf);
  if (wait === undefined) return null;
  // The first one counts when there are several (RFC 7240 §2).
  const parsed = WAIT_SECONDS.parse(wait);
  if (parsed.kind === "value") return parsed.value;
  throw new StatusError(40000, { detail: `Prefer: wait takes ${WAIT_SECONDS.takes}.` });
}

/** The values of `wait` in a line of preferences, each of which may have parameters: `name=value; parameter`. */
function waitsOf(line: string): readonly string[] {
  // Quoted text of other preferences may look like a preference of its own.
  const unquoted = line.replaceAll(/"([^"]*)"/g, (_all, text: string) =>
    text.replaceAll(/[,;=]/g, "_"),
  );
  return unquoted.split(",").flatMap((each) => {
    const [preference = ""] = each.split(";");
    const [name = "", ...value] = preference.split("=");
    return name.trim().toLowerCase() === "wait" ? [value.join("=").trim()] : [];
  });
}

export function taskCancel(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/tasks/task_cancel/:id", {
    access: "account",
    id: "cancelTask",
    summary: "Cancel a task",
    description:
      "A queued task never runs, a running task is stopped. A cancelled task is never ready and sends no webhook. " +
      "A repetition returns the same response.",
    params: { id: TASK_ID_PARAM },
    answerExamples: CANCEL_EXAMPLES,
    codes: [40401, 40403, 40902, 50700],
    examples: { empty: {} },
    async handle({ holder, params, now }) {
      const key = { accountId: holder.accountId, id: params["id"] ?? "" };
      const notFound = (): StatusError => taskNotFound(key.id, { ...deps, now });
      if (!isId(key.id)) throw notFound();
      const moment = { at: now, steadyAt: deps.clock.steady() };
      const end = retentionEnd(moment, deps.retentionMs);
      const outcome = await deps.store.cancelTask({ ...key, ...end, cancelledAt: now });
      if (outcome === "unknown") throw notFound();
      if (outcome === "finished") throw new StatusError(40902);
      if (outcome === "cancelled") deps.cancelled(key.id);
      const found = await deps.store.findTask(key);
      if (found === null) throw notFound();
      return envelopeAnswer(found);
    },
  });
}

type Fields = InputValues<(typeof TASK_INPUTS)["POST /v1/tasks/cancel"]["body"]>;

// For one request. Each step cancels some tasks, and the writes and reads of others come in between.
const STEPS_MAX = 10;

export function taskCancelMany(deps: OperationDeps): Operation {
  // However many requests an account sends, others wait for one portion of one of them.
  const turns = new AccountTurns();
  return defineOperation("POST /v1/tasks/cancel", {
    access: "account",
    id: "cancelTasks",
    summary: "Cancel many tasks",
    description:
      "Cancels the account's queued and running tasks that match the filter; an empty filter matches all. " +
      "It starts with the newest task, and skips tasks that are posted meanwhile. A request cancels a bounded number: repeat it " +
      "with `next_cursor` until that is null, and add up the counts. A repetition is safe at any point, also from the " +
      "beginning: cancelled tasks are not counted again.",
    codes: [50700],
    examples: {
      tag: { tag: "holiday", state: "queued" },
      preview: { created_before: "2030-01-31T09:00:00.000Z", dry_run: true },
    },
    async handle({ holder: { accountId }, body, gone }) {
      const filter = toFilter(body, accountId);
      const begin = openPlace(body, { accountId, cursors: deps.cursors });
      const { store, clock, retentionMs, cancelled } = deps;
      const walk: Parameters<typeof walkOpen>[0] = {
        ...{ store, filter, begin, cancelled },
        async end() {
          const moment = { at: clock.now(), steadyAt: clock.steady() };
          const end = { cancelledAt: moment.at, ...retentionEnd(moment, retentionMs) };
          return body.dry_run ? null : end;
        },
        async bySteps(step) {
          for (let left = STEPS_MAX; left > 0 && !gone().aborted; left--) {
            if (!(await step())) return;
          }
        },
      };
      const { total, next } = await turns.take(accountId, () => walkOpen(walk));
      const view = next && ({ list: next.state, scope: accountId } as const);
      const cursor = view && deps.cursors.seal(next, view);
      return { fields: { ...total, dry_run: body.dry_run, next_cursor: cursor } };
    },
  });
}

function toFilter(body: Fields, accountId: number): BulkFilter {
  const { state, dry_run: _dry, cursor: _cursor, created_after, created_before, ...asked } = body;
  const times = { createdAfter: created_after, createdBefore: created_before };
  const states = state === null ? OPEN_STATES : [state];
  return { accountId, states, search: searchWith({ ...asked, ...times }) };
}

// The state that the walk has reached is part of what the cursor was sealed for.
function openPlace(
  { state, cursor }: Fields,
  { accountId, cursors }: { readonly accountId: number; readonly cursors: ListCursors },
): OpenTaskPlace | null {
  if (cursor === null) return null;
  const isIn = (list: OpenState): boolean =>
    cursors.open(cursor, { list, scope: accountId }) !== null;
  const reached = state ?? OPEN_STATES.find(isIn) ?? OPEN_STATES[0];
  const view = { list: reached, scope: accountId };
  const place = openCursor(cursor, { cursors, isField: true, ...view });
  return place && { state: reached, ...place };
}

import type { FoundDelivery as FoundDeliveryShown, FoundTask } from "../../api/search.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import { StatusError, statusMessage } from "../../domain/status.ts";
import type { TaskProgress } from "../../domain/task/progress.ts";
import { parseTaskSearch, type TaskSearch } from "../../domain/task/task-search.ts";
import { TASKS_EXAMINED_MAX } from "../../store/store.ts";
import type { FoundDelivery, FoundTaskRow, Store } from "../../store/store.ts";
import { CURSOR_RULE, openCursor, type ListCursors } from "../list-cursor.ts";
import { defineOperation, NO_BODY, type Operation } from "../operation.ts";
import { textUpTo, wholeNumber } from "../query.ts";

export interface TaskSearchDeps {
  readonly store: Pick<Store, "searchTasks">;
  readonly cursors: ListCursors;
  readonly progressOf: (id: string) => TaskProgress | null;
}

const LIMIT = { min: 1, max: 200, standard: 50 };
const SEARCH_LENGTH_MAX = 1000;

/** GET /v1/tasks/search: tasks by what is known of them and of their webhooks, newest first. */
export function taskSearch({ store, cursors, progressOf }: TaskSearchDeps): Operation {
  return defineOperation({
    method: "GET",
    path: "/v1/tasks/search",
    access: "viewer",
    query: {
      q: textUpTo(SEARCH_LENGTH_MAX, Q_DESCRIPTION),
      cursor: CURSOR_RULE,
      limit: wholeNumber(LIMIT, "Most tasks on a page."),
    },
    body: NO_BODY,
    doc: {
      id: "searchTasks",
      group: "Dashboard",
      summary: "Search tasks",
      description:
        `Tasks that pass all words of \`q\`, newest first. A request looks at ${TASKS_EXAMINED_MAX} tasks and no more: a page ` +
        "that has found fewer than `limit` among them is short or empty and still has a `next_cursor`, with which the " +
        "search goes on.",
      codes: [],
    },
    async handle({ scope, query, now }) {
      const { q, limit } = query;
      const view = { list: "search", scope: scope?.accountId ?? null } as const;
      const page = await store.searchTasks({
        scope: view.scope,
        search: toSearch(q ?? "", now),
        limit,
        after: openCursor(query.cursor, { cursors, ...view }),
      });
      const { tasks, next, examinedUntil } = page;
      const fields = {
        tasks: tasks.map((task) => foundDocument(task, progressOf(task.id))),
        next_cursor: next && cursors.seal(next, view),
        examined_until: timeOrNull(examinedUntil),
      };
      return { fields };
    },
  });
}

const Q_DESCRIPTION =
  "Words with spaces between, all of which must hold: `state:queued|running|completed|failed|cancelled|ready|waiting|delayed` " +
  "(`waiting` and `delayed` are the queued tasks that may run now and those that start later), " +
  "`delivery:waiting|scheduled|in_flight|retrying|delivered|given_up|refused` (several of them with commas between), " +
  '`type:T`, `tag:T` (`tag:"a b"`), `host:H`, `account:LOGIN`, `code:50010`, `after:TIME`, `before:TIME` (RFC 3339, a ' +
  "day of UTC, or 30m, 2h, 7d for how long ago), `id:UUID`. A bare UUID is an id, any other bare word a tag. With a host, " +
  "`delivery` is about the webhooks that go there. All tasks where it is empty.";

function toSearch(q: string, now: number): TaskSearch {
  const parsed = parseTaskSearch(q, now);
  if ("problem" in parsed) throw new StatusError(40000, { detail: parsed.problem });
  return parsed.search;
}

function foundDocument(task: FoundTaskRow, progress: TaskProgress | null): FoundTask {
  const { id, login, state, statusCode, type, tag, priority, runs } = task;
  return {
    id,
    login,
    state,
    status_code: statusCode,
    status_message: task.statusMessage ?? statusMessage(statusCode),
    type,
    tag,
    priority,
    runs,
    created_at: timeText(task.createdAt),
    started_at: timeOrNull(task.startedAt),
    completed_at: timeOrNull(task.completedAt),
    start_at: timeOrNull(task.startAt),
    progress: state === "running" ? progress : null,
    ready: task.isReady,
    deliveries: task.deliveries.map(deliveryDocument),
  };
}

function deliveryDocument(delivery: FoundDelivery): FoundDeliveryShown {
  const { kind, host, state, attempts, last, nextDueAt } = delivery;
  return {
    kind,
    host,
    state,
    attempts,
    last: last && {
      outcome: last.outcome,
      http_status: last.httpStatus,
      error: last.error,
      ended_at: timeText(last.endedAt),
    },
    next_attempt_at: timeOrNull(nextDueAt),
  };
}

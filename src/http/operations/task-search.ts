import type { FoundDelivery as FoundDeliveryShown, FoundTask } from "../../api/search.ts";
import { timeOrNull, timeText } from "../../domain/clock/time.ts";
import { StatusError, statusMessage } from "../../domain/status.ts";
import { type TaskProgress } from "../../domain/task/run.ts";
import { parseTaskSearch, type TaskSearch } from "../../domain/task/task-search.ts";
import { pauseOf } from "../../domain/webhook/delivery-pause.ts";
import { TASKS_EXAMINED_MAX } from "../../store/store.ts";
import type { DeliveryPause, FoundDelivery, FoundTaskRow } from "../../store/store.ts";
import { openCursor } from "../list-cursor.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { runningIds } from "./task-get.ts";

export function taskSearch({ store, cursors, findProgress }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/search", {
    access: "viewer",
    doc: {
      id: "searchTasks",
      group: "Dashboard",
      summary: "Search tasks",
      description:
        `Tasks that pass all words of \`q\`, newest first. A request looks at ${TASKS_EXAMINED_MAX} tasks and no more: a page ` +
        "that has found fewer than `limit` among them is short or empty and still has a `next_cursor`, with which the " +
        "search goes on.",
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
      const progressOf = await findProgress(runningIds(tasks));
      const pauses = tasks.some(hasScheduled) ? await store.listDeliveryPauses() : [];
      const fields = {
        tasks: tasks.map((task) => foundDocument(task, { progress: progressOf(task.id), pauses })),
        next_cursor: next && cursors.seal(next, view),
        examined_until: timeOrNull(examinedUntil),
      };
      return { fields };
    },
  });
}

function toSearch(q: string, now: number): TaskSearch {
  const parsed = parseTaskSearch(q, now);
  if ("problem" in parsed) throw new StatusError(40000, { detail: parsed.problem });
  return parsed.search;
}

function hasScheduled({ deliveries }: FoundTaskRow): boolean {
  return deliveries.some(({ state }) => state === "scheduled");
}

interface Present {
  readonly progress: TaskProgress | null;
  readonly pauses: readonly DeliveryPause[];
}

function foundDocument(task: FoundTaskRow, { progress, pauses }: Present): FoundTask {
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
    deliveries: task.deliveries.map((each) =>
      deliveryDocument(each, pauseOf(pauses, { login, host: each.host })),
    ),
  };
}

function deliveryDocument(
  delivery: FoundDelivery,
  pause: DeliveryPause | null,
): FoundDeliveryShown {
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
    is_paused: state === "scheduled" && pause !== null,
  };
}

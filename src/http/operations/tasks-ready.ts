import { optional } from "../../api/input.ts";
import { summaryJson, tasksEnvelope } from "../../domain/task/envelope.ts";
import type { TaskProgress } from "../../domain/task/progress.ts";
import { ANY_TASK } from "../../domain/task/task-search.ts";
import { TAG } from "../../domain/task/task.ts";
import type { TaskSummary } from "../../domain/task/task.ts";
import type { Store } from "../../store/store.ts";
import { CURSOR_RULE, openCursor, type ListCursors } from "../list-cursor.ts";
import { defineOperation, NO_BODY, type Answer, type Operation } from "../operation.ts";
import { textUpTo, wholeNumber } from "../query.ts";

const LIMIT = { min: 1, max: 1000, standard: 100 };
/** So long is the type of a refused task at most that is kept as it was posted. */
export const TYPE_LENGTH_MAX = 64;

/** What every list of tasks can be asked for, beside its cursor: parts of a search, and how much of what passes. */
export const LIST_QUERY = {
  limit: wholeNumber(
    LIMIT,
    "Most tasks on a page. A page of large tasks ends sooner, and one with several filters that few tasks pass may be " +
      "empty: go on while `next_cursor` is not null.",
  ),
  tag: optional(TAG, "Only tasks with exactly this tag."),
  type: textUpTo(TYPE_LENGTH_MAX, "Only tasks of this type."),
} as const;

export interface TasksReadyDeps {
  readonly store: Pick<Store, "listReady">;
  readonly cursors: ListCursors;
}

/** GET /v1/tasks/tasks_ready: finished tasks that were not collected, oldest completion first. */
export function tasksReady({ store, cursors }: TasksReadyDeps): Operation {
  return defineOperation({
    method: "GET",
    path: "/v1/tasks/tasks_ready",
    access: "account",
    query: { ...LIST_QUERY, cursor: CURSOR_RULE },
    body: NO_BODY,
    doc: {
      id: "listReadyTasks",
      group: "Tasks",
      summary: "List ready tasks",
      description:
        "Tasks that completed or failed and were not collected yet, oldest completion first. Listing collects nothing.",
      codes: [],
    },
    async handle({ holder, query }) {
      const { limit, cursor, ...asked } = query;
      const view = { list: "ready", scope: holder.accountId } as const;
      const { tasks, next } = await store.listReady({
        scope: view.scope,
        search: { ...ANY_TASK, ...asked },
        limit,
        after: openCursor(cursor, { cursors, ...view }),
      });
      return listAnswer({ tasks, nextCursor: next && cursors.seal(next, view) });
    },
  });
}

interface ListPage {
  readonly tasks: readonly TaskSummary[];
  readonly nextCursor: string | null;
  /** For a list with tasks that run. */
  readonly progressOf?: (id: string) => TaskProgress | null;
}

/** A page of a list of tasks. */
export function listAnswer({ tasks, nextCursor, progressOf }: ListPage): Answer {
  const items = tasks.map((task) => {
    const progress = progressOf?.(task.id) ?? null;
    return { code: task.statusCode, text: summaryJson(task, { progress }) };
  });
  const fieldText = `"next_cursor":${JSON.stringify(nextCursor)}`;
  return { status: 200, text: tasksEnvelope(items, fieldText) };
}

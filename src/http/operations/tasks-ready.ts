import { summaryJson, tasksEnvelope } from "../../domain/task/envelope.ts";
import type { TaskProgress } from "../../domain/task/progress.ts";
import { ANY_TASK } from "../../domain/task/task-search.ts";
import type { TaskSummary } from "../../domain/task/task.ts";
import type { Store } from "../../store/store.ts";
import { openCursor, type ListCursors } from "../list-cursor.ts";
import { defineOperation, type Answer, type Operation } from "../operation.ts";

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
  /** For a list that includes running tasks. */
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

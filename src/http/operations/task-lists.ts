import { summaryJson, tasksEnvelope } from "../../domain/task/envelope.ts";
import { type TaskProgress } from "../../domain/task/run.ts";
import { ANY_TASK } from "../../domain/task/task-search.ts";
import type { TaskSummary } from "../../domain/task/task.ts";
import { openCursor } from "../list-cursor.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation, type WholeAnswer } from "../operation.ts";
import { runningIds } from "./task-get.ts";

export function tasksReady({ store, cursors }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks/tasks_ready", {
    access: "account",
    doc: {
      id: "listReadyTasks",
      group: "Tasks",
      summary: "List ready tasks",
      description:
        "Tasks that completed or failed and were not collected yet, oldest completion first. Listing collects nothing.",
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

export function taskList({ store, cursors, findProgress }: OperationDeps): Operation {
  return defineOperation("GET /v1/tasks", {
    access: "account",
    doc: {
      id: "listTasks",
      group: "Tasks",
      summary: "List tasks",
      description: "All tasks of the account, newest first, refused and cancelled ones included.",
    },
    async handle({ holder, query }) {
      const { limit, cursor, state, created_after, created_before, ...asked } = query;
      const view = { list: "tasks", scope: holder.accountId } as const;
      const times = { createdAfter: created_after, createdBefore: created_before };
      const { tasks, next } = await store.listTasks({
        scope: view.scope,
        search: { ...ANY_TASK, ...asked, ...times, states: state && [state] },
        limit,
        after: openCursor(cursor, { cursors, ...view }),
      });
      const progressOf = await findProgress(runningIds(tasks));
      return listAnswer({ tasks, nextCursor: next && cursors.seal(next, view), progressOf });
    },
  });
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

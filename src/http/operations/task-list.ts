import { ANY_TASK } from "../../domain/task/task-search.ts";
import type { Store } from "../../store/store.ts";
import { openCursor, type ListCursors } from "../list-cursor.ts";
import { defineOperation, type Operation } from "../operation.ts";
import type { TaskGetDeps } from "./task-get.ts";
import { listAnswer } from "./tasks-ready.ts";

export interface TaskListDeps extends Pick<TaskGetDeps, "progressOf"> {
  readonly store: Pick<Store, "listTasks">;
  readonly cursors: ListCursors;
}

/** GET /v1/tasks: all tasks of the account, newest first. */
export function taskList({ store, cursors, progressOf }: TaskListDeps): Operation {
  return defineOperation({
    method: "GET",
    path: "/v1/tasks",
    access: "account",
    doc: {
      id: "listTasks",
      group: "Tasks",
      summary: "List tasks",
      description: "All tasks of the account, newest first, refused and cancelled ones included.",
      codes: [],
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
      return listAnswer({ tasks, nextCursor: next && cursors.seal(next, view), progressOf });
    },
  });
}

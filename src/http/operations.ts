import type { Store } from "../store/store.ts";
import type { Operation } from "./operation.ts";
import { livez, readyz } from "./operations/health.ts";
import { taskGet, type TaskGetDeps } from "./operations/task-get.ts";
import { taskPost, type TaskPostDeps } from "./operations/task-post.ts";
import { tasksReady } from "./operations/tasks-ready.ts";

export type OperationsDeps = TaskPostDeps &
  TaskGetDeps & {
    readonly store: Pick<Store, "insertTasks" | "findTask" | "collectTask" | "listReady">;
    readonly notReadyReason: () => string | null;
  };

/** The API on one screen: every operation there is. */
export function operations(deps: OperationsDeps): readonly Operation[] {
  return [taskPost(deps), taskGet(deps), tasksReady(deps), livez(), readyz(deps)];
}

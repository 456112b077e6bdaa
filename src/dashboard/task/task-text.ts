import { callText } from "../shell/api.ts";
import type { TaskShown } from "../shell/envelope.ts";
import type { Load } from "../shell/resource.ts";
import { isOperator } from "../shell/session.ts";

/** What task_get answers about a task, byte for byte: the body of its postback. It never collects the task. */
export function readTaskText(
  { id, login }: Pick<TaskShown, "id" | "login">,
  load?: Load,
): Promise<string> {
  const account = isOperator.value ? { account: login } : {};
  return callText(`/v1/tasks/task_get/${encodeURIComponent(id)}?collect=false`, {
    ...load,
    ...account,
  });
}

import type { TimelineTask } from "../../api/timeline.ts";
import { callText } from "../shell/api.ts";
import type { Load } from "../shell/resource.ts";
import { isOperator } from "../shell/session.ts";

/** The answer of task_get about a task, byte for byte: the body of its postback. It never collects the task. */
export function readTaskText(
  { id, login }: Pick<TimelineTask, "id" | "login">,
  load?: Load,
): Promise<string> {
  const account = isOperator.value ? { account: login } : {};
  const query = { collect: false };
  return callText("GET /v1/tasks/task_get/:id", { ...load, ...account, params: { id }, query });
}

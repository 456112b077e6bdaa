import type { TimelineTask } from "../../api/timeline.ts";
import { callText } from "../shell/api.ts";
import type { Load } from "../shell/resource.ts";
import { isOperator } from "../shell/session.ts";
import { isList, isObject, type JsonSource, memberOf, parseJsonSource } from "./json-source.ts";

/** The answer of task_get about a task, byte for byte: the body of its postback. It never collects the task. */
export function readTaskText(
  { id, login }: Pick<TimelineTask, "id" | "login">,
  load?: Load,
): Promise<string> {
  const account = isOperator.value ? { account: login } : {};
  const query = { collect: false };
  return callText("GET /v1/tasks/task_get/:id", { ...load, ...account, params: { id }, query });
}

/** The input and the result in an answer of task_get. */
export interface TaskContents {
  /** The whole answer. */
  readonly text: string;
  /** Whether it could be read as a tree. */
  readonly isRead: boolean;
  readonly input: JsonSource | undefined;
  readonly result: JsonSource | undefined;
}

export function parseTaskText(text: string): TaskContents {
  const envelope = parseJsonSource(text);
  const tasks = memberOf(envelope, "tasks");
  const task = isList(tasks) ? tasks[0] : undefined;
  const input = memberOf(memberOf(task, "data"), "input");
  return { text, isRead: isObject(envelope), input, result: memberOf(task, "result") };
}

import { isJsonObject, type JsonObject } from "../domain/json/json.ts";
import type { StatusDetail } from "../domain/status.ts";
import { parseTask, type ParsedTask, type TaskRules } from "../domain/task/task-post.ts";
import { parseBody, TASKS_READING } from "./body.ts";

/** A body of tasks as it came, with everything that is needed to judge them. */
export interface PostedBody {
  readonly bytes: Uint8Array;
  readonly rules: TaskRules;
  readonly now: number;
  readonly tasksMax: number;
}

/** The content of a body of tasks; `refused` is reported only after any other fault of the request. */
export type PostedTasks =
  | { readonly kind: "tasks"; readonly tasks: readonly ParsedTask[] }
  | {
      readonly kind: "refused";
      readonly code: 40006 | 40502 | 40503;
      readonly more: { readonly detail?: string; readonly details?: readonly StatusDetail[] };
    };

/** Parses all tasks of a body, each with its own id. Throws 40503 for bytes that are not JSON. */
export function parsePostedTasks(
  { bytes, rules, now, tasksMax }: PostedBody,
  nextId: () => string,
): PostedTasks {
  const body = parseBody(bytes, TASKS_READING);
  const elements: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (elements.length === 0) return { kind: "refused", code: 40502, more: {} };
  if (elements.length > tasksMax) {
    const detail = `At most ${tasksMax} tasks may be posted at once; these are ${elements.length}.`;
    return { kind: "refused", code: 40006, more: { detail } };
  }
  const objects: readonly JsonObject[] = elements.filter(isJsonObject);
  if (objects.length < elements.length) {
    const details = notObjects(elements, Array.isArray(body));
    return { kind: "refused", code: 40503, more: { details } };
  }
  const tasks = objects.map((task) => parseTask(task, { id: nextId(), now, rules }));
  return { kind: "tasks", tasks };
}

function notObjects(elements: readonly unknown[], isArray: boolean): StatusDetail[] {
  return elements.flatMap((element, i) => {
    if (isJsonObject(element)) return [];
    return [{ pointer: isArray ? `/${i}` : "", detail: "A task must be a JSON object." }];
  });
}

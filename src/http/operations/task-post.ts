import { taskJson, tasksEnvelope, type TaskItem } from "../../domain/envelope.ts";
import type { IdGenerator } from "../../domain/id.ts";
import { expiresAt } from "../../domain/retention.ts";
import { StatusError, type StatusDetail } from "../../domain/status.ts";
import {
  parseTask,
  type JsonObject,
  type ParsedTask,
  type TaskRules,
} from "../../domain/task-post.ts";
import type { NewTask, RefusedTask, Task } from "../../domain/task.ts";
import type { Store } from "../../store/store.ts";
import type { Operation } from "../operation.ts";

export interface TaskPostDeps {
  readonly store: Pick<Store, "insertTasks">;
  readonly ids: IdGenerator;
  readonly rules: () => TaskRules;
  readonly tasksMax: number;
  readonly retentionMs: number;
  /** False while the daemon stops: what it took in now it could not run. */
  readonly isAccepting: () => boolean;
  /** Tells the engine that tasks of these types are queued. */
  readonly wake: (types: ReadonlySet<string>) => void;
}

/** POST /v1/tasks/task_post: takes in 1–100 tasks and answers once all of them are on disk. */
export function taskPost(deps: TaskPostDeps): Operation {
  return {
    method: "POST",
    path: "/v1/tasks/task_post",
    access: "account",
    async handle({ holder, body, now }) {
      const posted = parsePosted(body, deps.tasksMax);
      if (!deps.isAccepting()) throw new StatusError(50300, { headers: { "retry-after": "5" } });
      const rules = deps.rules();
      const parsed = posted.map((task) => parseTask(task, { id: deps.ids.next(now), rules }));
      const refusedExpireAt = expiresAt(now, deps.retentionMs);
      const { accepted, refused } = sorted(parsed);
      const { accountId } = holder;
      await deps.store.insertTasks({
        accountId,
        createdAt: now,
        accepted,
        refused,
        refusedExpireAt,
      });
      if (accepted.length > 0) deps.wake(new Set(accepted.map(({ type }) => type)));
      const items = parsed.map((task) => toItem(task, { createdAt: now, refusedExpireAt }));
      return { status: 200, text: tasksEnvelope(items) };
    },
  };
}

function parsePosted(body: unknown, tasksMax: number): readonly JsonObject[] {
  const elements: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (elements.length === 0) throw new StatusError(40502);
  if (elements.length > tasksMax) {
    const detail = `At most ${tasksMax} tasks may be posted at once; these are ${elements.length}.`;
    throw new StatusError(40006, { details: [{ pointer: "", detail }] });
  }
  const objects = elements.filter(isObject);
  if (objects.length === elements.length) return objects;
  throw new StatusError(40503, { details: notObjects(elements, Array.isArray(body)) });
}

function isObject(value: unknown): value is JsonObject {
  // A number whose digits are kept is an object to JavaScript, and a number to the client.
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
  );
}

function notObjects(elements: readonly unknown[], isArray: boolean): StatusDetail[] {
  return elements.flatMap((element, i) => {
    if (isObject(element)) return [];
    return [{ pointer: isArray ? `/${i}` : "", detail: "A task must be a JSON object." }];
  });
}

interface Sorted {
  readonly accepted: NewTask[];
  readonly refused: RefusedTask[];
}

function sorted(parsed: readonly ParsedTask[]): Sorted {
  const all: Sorted = { accepted: [], refused: [] };
  for (const each of parsed) {
    if (each.kind === "accepted") all.accepted.push(each.task);
    else all.refused.push(each.task);
  }
  return all;
}

// The tasks as the store now has them: shown without being read back.
function toItem(
  parsed: ParsedTask,
  times: { readonly createdAt: number; readonly refusedExpireAt: number },
): TaskItem {
  const { id, type, dataText, inputText } = parsed.task;
  const fresh = { id, type, dataText, inputText, createdAt: times.createdAt };
  if (parsed.kind === "accepted") {
    return { code: 20100, text: taskJson({ ...QUEUED, ...fresh }, 20100) };
  }
  const { code, message, errorText } = parsed.task;
  const refused: Task = {
    ...{
      ...QUEUED,
      ...fresh,
      errorText,
      state: "failed",
      statusCode: code,
      statusMessage: message,
    },
    completedAt: times.createdAt,
    expiresAt: times.refusedExpireAt,
  };
  return { code, text: taskJson(refused) };
}

const QUEUED = {
  state: "queued",
  statusCode: 40602,
  statusMessage: null,
  startedAt: null,
  completedAt: null,
  expiresAt: null,
  runs: 0,
  resultText: null,
  errorText: null,
} as const;

import type { AnyTypes, TaskTypes, TypeName } from "../domain/task/function.ts";
import type { Answers, Bodies } from "./api.ts";
import { PostbackdError } from "./settings.ts";

export type { AnyTypes, TaskType, TaskTypes, TypeName } from "../domain/task/function.ts";

type ApiTask = Answers["GET /v1/tasks/task_get/:id"]["tasks"][number];
type ApiNewTask = Extract<Bodies["POST /v1/tasks/task_post"], readonly unknown[]>[number];

/** A task in a list: without its input, result and error. */
export type TaskSummary = Answers["GET /v1/tasks"]["tasks"][number];

/** A task to be posted. */
export type NewTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> = Omit<ApiNewTask, "type" | "input"> & Work<Types, Name>;

type Work<Types extends TaskTypes<Types>, Name extends TypeName<Types>> =
  // Where no types were named, the daemon may have one alone, and a task no input.
  string extends keyof Types
    ? { readonly type?: Name | null | undefined; readonly input?: unknown }
    : { readonly type: Name; readonly input: Types[Name]["input"] };

/** A task to be posted, of any of the types. */
export type AnyNewTask<Types extends TaskTypes<Types> = AnyTypes> = {
  [Name in TypeName<Types>]: NewTask<Types, Name>;
}[TypeName<Types>];

type Shown = Omit<ApiTask, "type" | "state" | "data" | "result" | "error">;

/** A task that waits or runs. */
export interface OpenTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> extends Shown {
  readonly type: Name;
  readonly state: Exclude<ApiTask["state"], keyof typeof ENDED>;
  /** The task as posted, URLs in encoded form. */
  readonly data: NewTask<Types, Name>;
  readonly result: null;
  readonly error: null;
}

export interface CompletedTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> extends Shown {
  readonly type: Name;
  readonly state: "completed";
  /** The task as posted, URLs in encoded form. */
  readonly data: NewTask<Types, Name>;
  readonly result: Types[Name]["result"];
  readonly error: null;
}

/** A task that failed, was refused or was cancelled. */
export interface UncompletedTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> extends Shown {
  /** Of a refused task: as posted, or null. */
  readonly type: Name | null;
  readonly state: Exclude<keyof typeof ENDED, "completed">;
  /** The task as posted; of a refused task that may be anything. */
  readonly data: ApiTask["data"];
  readonly result: null;
  /** Null for a cancelled task. */
  readonly error: ApiTask["error"];
}

/** A task that has ended; `state` says how, and with it what `result` and `error` are. */
export type EndedTask<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> =
  Name extends TypeName<Types> ? CompletedTask<Types, Name> | UncompletedTask<Types, Name> : never;

/** A task; `type` says what its input and result are, and `state` whether there is a result. */
export type Task<
  Types extends TaskTypes<Types> = AnyTypes,
  Name extends TypeName<Types> = TypeName<Types>,
> = Name extends TypeName<Types> ? OpenTask<Types, Name> | EndedTask<Types, Name> : never;

/** The states in which a task stays. */
export const ENDED: { readonly completed: true; readonly failed: true; readonly cancelled: true } =
  { completed: true, failed: true, cancelled: true };

export function isEnded({ state }: { readonly state: ApiTask["state"] }): boolean {
  return state in ENDED;
}

/** The one task of an answer. */
export function onlyTask<Item>({ tasks: [task] }: { readonly tasks: readonly Item[] }): Item {
  if (task === undefined) throw new PostbackdError("The daemon answered without the task.");
  return task;
}

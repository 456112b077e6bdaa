import { INSTANT } from "../domain/clock/time.ts";
import { oneOf, plainText, TRUTH } from "../domain/rule.ts";
import { PROGRESS_NOTE_MAX } from "../domain/task/run.ts";
import { PRIORITY, START_AHEAD_DAYS_MAX, type TaskField } from "../domain/task/task-post.ts";
import { OPEN_STATES, TAG, TASK_STATES } from "../domain/task/task.ts";
import { URL_BYTES_MAX } from "../domain/webhook/url-form.ts";
import { Id, NextCursor, Share, Time, envelope, tasksEnvelope } from "./envelope.ts";
import {
  CURSOR,
  optional,
  pointInTime,
  textUpTo,
  wholeNumber,
  withDefault,
  type InputsFor,
} from "./input.ts";
import * as s from "./schema.ts";
import { TASK_CODE_TABLE, TASK_CODES } from "./status.ts";

// Without the flag `i`, which JSON Schema does not have.
const WEB_ADDRESS = "^[Hh][Tt][Tt][Pp][Ss]?://";
const URL_RULES = `Public targets alone, at most ${URL_BYTES_MAX} bytes in encoded form.`;

const textOrNull = (more: s.More): s.Schema<string | null> => s.nullable(s.text(more));

const POSTED = {
  type: textOrNull("Which runner: one of /v1/appendix/types. Optional if only one exists."),
  tag: textOrNull({
    ...TAG.schema,
    description: "A label of the client's. Without control characters.",
  }),
  marketplace: textOrNull("A code from /v1/appendix/marketplaces."),
  priority: s.nullable(
    s.integer({ ...PRIORITY.schema, description: "Higher first; 0 unless given." }),
  ),
  start_at: textOrNull({
    ...INSTANT.schema,
    description: `Not to run before this time, at most ${START_AHEAD_DAYS_MAX} days ahead.`,
  }),
  postback_url: textOrNull({
    pattern: WEB_ADDRESS,
    description: `Gets the finished task by a signed POST. ${URL_RULES}`,
  }),
  pingback_url: textOrNull({
    pattern: WEB_ADDRESS,
    description: `Gets a signed GET, with $id and $tag filled in. ${URL_RULES}`,
    examples: ["https://example.com/done?id=$id&tag=$tag"],
  }),
  input: s.anything("Any JSON, given to the runner; null when absent."),
} satisfies Record<TaskField, s.Schema<unknown>>;

/**
 * A task in the body of task_post. domain/task/task-post.ts reads it, by hand because it reads thousands a second; a
 * test keeps the two in step.
 */
export const PostedTask = s.named("PostedTask", s.closed(s.object({}, { optional: POSTED })));
export type PostedTask = s.Static<typeof PostedTask>;

/** The body of task_post: one task, or several. */
export function postedTasks(tasksMax: number): s.Schema<PostedTask | readonly PostedTask[]> {
  return s.either(s.list(PostedTask, { minItems: 1, maxItems: tasksMax }), PostedTask);
}

const AnyJson = s.anything("Any JSON.");

export const ProgressNote = s.nullable(s.text({ maxLength: PROGRESS_NOTE_MAX }));

export const Progress = s.named("Progress", s.object({ progress: Share, note: ProgressNote }));
export type Progress = s.Static<typeof Progress>;

const DATA = {
  type: s.text(),
  tag: s.text(),
  marketplace: s.text(),
  priority: s.integer(),
  start_at: Time,
  postback_url: s.text(),
  pingback_url: s.text(),
  input: s.anything("Any JSON; not in lists."),
} satisfies Record<TaskField, s.Schema<unknown>>;

const TaskData = s.named(
  "TaskData",
  s.object(
    {},
    {
      description: "The task as posted: of its fields those that were given, URLs in encoded form.",
      optional: DATA,
    },
  ),
);

const AnyData: s.Schema<Readonly<Record<string, unknown>>> = {
  type: "object",
  description: "The posted value of a refused task.",
};

/** The fields of a task that are shown everywhere. */
export const TASK_SUMMARY = {
  id: Id,
  status_code: s.integer({ enum: TASK_CODES, description: TASK_CODE_TABLE }),
  status_message: s.text(),
  state: s.word(TASK_STATES),
  type: s.nullable(s.text()),
  created_at: Time,
  started_at: s.nullable(Time),
  completed_at: s.nullable(Time),
  expires_at: s.nullable(Time),
  runs: s.count(),
  progress: s.nullable(Progress, "The progress of the run; null if it reported none."),
  data: s.either(
    TaskData,
    AnyData,
    "The task as posted, URLs in encoded form. A refused task may hold anything here.",
  ),
};

export const TaskError = s.nullable(s.object({ message: s.text(), detail: AnyJson }));

const TaskSummary = s.named(
  "TaskSummary",
  s.object(TASK_SUMMARY, { description: "A task in a list: without input, result and error." }),
);

const Task = s.named(
  "Task",
  s.object({
    ...TASK_SUMMARY,
    result: AnyJson,
    error: TaskError,
  }),
);

/** The body of task_get and of a postback. */
export const TaskEnvelope = s.named("TaskEnvelope", {
  ...tasksEnvelope(Task, {}),
  description: "The body of task_get, and byte for byte the body of a postback.",
});

const TaskPage = tasksEnvelope(TaskSummary, { next_cursor: NextCursor });

/** The result of one step of a bulk cancellation. */
const TasksCancelled = envelope({
  queued: s.count("How many that waited were cancelled."),
  running: s.count("How many of them ran; their runs are stopped."),
  dry_run: s.flag("True if they were only counted."),
  next_cursor: NextCursor,
});

export const TASK_ANSWERS = {
  "POST /v1/tasks/task_post": tasksEnvelope(Task, {}),
  "GET /v1/tasks/task_get/:id": TaskEnvelope,
  "GET /v1/tasks/tasks_ready": TaskPage,
  "GET /v1/tasks": TaskPage,
  "POST /v1/tasks/task_cancel/:id": TaskEnvelope,
  "POST /v1/tasks/cancel": TasksCancelled,
};

const LIMIT = { min: 1, max: 1000, standard: 100 };
// So long is the type of a refused task at most that is kept as it was posted.
const TYPE_LENGTH_MAX = 64;

/** The filters and the page size that every list of tasks has, besides its cursor. */
const LIST_QUERY = {
  limit: wholeNumber(
    LIMIT,
    "Most tasks on a page. A page of large tasks ends sooner, and one with several filters that few tasks pass may be " +
      "empty: go on while `next_cursor` is not null.",
  ),
  tag: optional(TAG, "Only tasks with exactly this tag."),
  type: textUpTo(TYPE_LENGTH_MAX, "Only tasks of this type."),
};

export const TASK_INPUTS = {
  "POST /v1/tasks/task_post": { json: postedTasks },
  "GET /v1/tasks/task_get/:id": {
    query: { collect: withDefault(TRUTH, true, "False leaves a finished task in tasks_ready.") },
  },
  "GET /v1/tasks/tasks_ready": { query: { ...LIST_QUERY, cursor: CURSOR } },
  "GET /v1/tasks": {
    query: {
      state: optional(oneOf(TASK_STATES), "Only tasks in this state."),
      ...LIST_QUERY,
      cursor: CURSOR,
      created_after: pointInTime("Only tasks made at this time or later."),
      created_before: pointInTime("Only tasks made before this time."),
    },
  },
  "POST /v1/tasks/task_cancel/:id": { body: {}, isBodyOptional: true },
  "POST /v1/tasks/cancel": {
    body: {
      state: optional(oneOf(OPEN_STATES), "Only tasks in this state; else both."),
      type: optional(plainText(TYPE_LENGTH_MAX), "Only tasks of this type."),
      tag: optional(TAG, "Only tasks with exactly this tag."),
      created_after: optional(INSTANT, "Only tasks made at this time or later. RFC 3339."),
      created_before: optional(INSTANT, "Only tasks made before this time. RFC 3339."),
      dry_run: withDefault(TRUTH, false, "True to count them and to cancel none."),
      cursor: CURSOR,
    },
  },
} satisfies InputsFor<typeof TASK_ANSWERS>;

import { PROGRESS_NOTE_MAX } from "../domain/progress.ts";
import { TASK_STATES } from "../domain/task.ts";
import { envelope, NextCursor, tasksEnvelope } from "./envelope.ts";
import {
  anything,
  count,
  either,
  flag,
  integer,
  named,
  nullable,
  object,
  text,
  word,
  type Schema,
  type Static,
} from "./schema.ts";
import { TASK_CODE_TABLE, TASK_CODES } from "./status-doc.ts";
import { Id, Share, Time } from "./value.ts";

const AnyJson = anything({ description: "Any JSON." });

export const ProgressNote = nullable(text({ maxLength: PROGRESS_NOTE_MAX }));

export const Progress = named("Progress", object({ progress: Share, note: ProgressNote }));
export type Progress = Static<typeof Progress>;

const TaskData = named(
  "TaskData",
  object(
    {},
    {
      description: "The task as posted: of its fields those that were given, URLs in encoded form.",
      optional: {
        type: text(),
        tag: text(),
        marketplace: text(),
        priority: integer(),
        start_at: Time,
        postback_url: text(),
        pingback_url: text(),
        input: anything({ description: "Any JSON; not in lists." }),
      },
    },
  ),
);

const AnyData: Schema<Readonly<Record<string, unknown>>> = {
  type: "object",
  description: "Of a refused task: whatever was posted.",
};

/** What is shown of a task everywhere. */
export const TASK_SUMMARY = {
  id: Id,
  status_code: integer({ enum: TASK_CODES, description: TASK_CODE_TABLE }),
  status_message: text(),
  state: word(TASK_STATES),
  type: nullable(text()),
  created_at: Time,
  started_at: nullable(Time),
  completed_at: nullable(Time),
  expires_at: nullable(Time),
  runs: count(),
  progress: nullable(Progress, { description: "How far a run has come; null when not told." }),
  data: either(TaskData, AnyData, {
    description: "The task as posted, URLs in encoded form. A refused task may hold anything here.",
  }),
};

/** Why a task has failed. */
export const TaskError = nullable(object({ message: text(), detail: AnyJson }));

const TaskSummary = named(
  "TaskSummary",
  object(TASK_SUMMARY, { description: "A task in a list: without input, result and error." }),
);

const Task = named(
  "Task",
  object({
    ...TASK_SUMMARY,
    result: AnyJson,
    error: TaskError,
  }),
);

/** The body of task_get and of a postback. */
export const TaskEnvelope = named("TaskEnvelope", {
  ...tasksEnvelope(Task),
  description: "The body of task_get, and byte for byte that of a postback.",
});

const TaskPage = tasksEnvelope(TaskSummary, { next_cursor: NextCursor });

/** What a step of a cancelling in bulk did. */
const TasksCancelled = envelope({
  queued: count({ description: "How many that waited were cancelled." }),
  running: count({ description: "How many that ran; they are told to stop." }),
  dry_run: flag({ description: "True where they were only counted." }),
  next_cursor: NextCursor,
});

export const TASK_ANSWERS = {
  "POST /v1/tasks/task_post": tasksEnvelope(Task),
  "GET /v1/tasks/task_get/:id": TaskEnvelope,
  "GET /v1/tasks/tasks_ready": TaskPage,
  "GET /v1/tasks": TaskPage,
  "POST /v1/tasks/task_cancel/:id": TaskEnvelope,
  "POST /v1/tasks/cancel": TasksCancelled,
};

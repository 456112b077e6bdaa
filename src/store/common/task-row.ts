import type { StatusCode } from "../../domain/status.ts";
import { STATUS_TABLE } from "../../domain/status.ts";
import type { Task, TaskState, TaskSummary } from "../../domain/task/task.ts";

/** Rows of tasks, as both stores select them, and the tasks that they are. */

/** A task without its texts, its state and code as they are stored. */
export interface SummaryRow extends Omit<TaskSummary, "state" | "statusCode"> {
  readonly state: string;
  readonly statusCode: number;
}

/** A task with its texts. */
export type TaskRow = SummaryRow & Omit<Task, keyof TaskSummary>;

export function toTask(row: TaskRow): Task {
  const { inputText, resultText, errorText } = row;
  return { ...toSummary(row), inputText, resultText, errorText };
}

export function toSummary(row: SummaryRow): TaskSummary {
  const { id, statusMessage, type, createdAt, startedAt, completedAt, expiresAt, runs } = row;
  return {
    id,
    state: toState(row.state),
    statusCode: toStatusCode(row.statusCode),
    statusMessage,
    type,
    createdAt,
    startedAt,
    completedAt,
    expiresAt,
    runs,
    dataText: row.dataText,
  };
}

// The table's CHECK admits exactly these; `delayed` is the stored state of queued tasks that wait for start_at.
function toState(text: string): TaskState {
  switch (text) {
    case "delayed":
    case "queued":
      return "queued";
    case "running":
    case "completed":
    case "failed":
    case "cancelled":
      return text;
    default:
      throw new Error(`the database holds a task in the unknown state ${text}`);
  }
}

function toStatusCode(code: number): StatusCode {
  if (isStatusCode(code)) return code;
  throw new Error(`the database holds a task with the unknown status code ${code}`);
}

function isStatusCode(code: number): code is StatusCode {
  return Object.hasOwn(STATUS_TABLE, code);
}

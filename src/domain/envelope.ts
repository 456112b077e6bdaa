import { isTaskError, statusMessage, type StatusCode } from "./status.ts";
import type { Task, TaskSummary } from "./task.ts";
import { timeText } from "./time.ts";

/**
 * The bytes clients see. They are made here and not in the HTTP ring, because a postback's body is byte for
 * byte the body of task_get (contract §1): one function makes both. It reads no clock and knows no
 * request. JSON is put together from stored JSON text, so that nothing is parsed again on the way out.
 */

function timeJson(timeMs: number | null): string {
  return timeMs === null ? "null" : `"${timeText(timeMs)}"`;
}

function stringJson(text: string | null): string {
  return text === null ? "null" : JSON.stringify(text);
}

/** The envelope of one task, as task_get answers it and a postback carries it. */
export function taskEnvelope(task: Task): string {
  return tasksEnvelope([{ code: task.statusCode, text: taskJson(task) }]);
}

/** A task's JSON beside the code that decides whether it counts as an error. */
export interface TaskItem {
  readonly code: StatusCode;
  readonly text: string;
}

/** An envelope around tasks; `fieldsText` is what the operation adds, as `"name":value` JSON text. */
export function tasksEnvelope(items: readonly TaskItem[], fieldsText = ""): string {
  const errors = items.reduce((count, item) => count + (isTaskError(item.code) ? 1 : 0), 0);
  const fields = fieldsText === "" ? "" : `,${fieldsText}`;
  const tasks = items.map((item) => item.text).join(",");
  return `{"status_code":20000,"status_message":"Ok.","tasks_count":${items.length},"tasks_error":${errors}${fields},"tasks":[${tasks}]}`;
}

/** A task with all its fields. `code` overrides the stored code in the answer to task_post. */
export function taskJson(task: Task, code: StatusCode = task.statusCode): string {
  const data = dataJson(task.dataText, task.inputText);
  const result = `"result":${task.resultText ?? "null"},"error":${task.errorText ?? "null"}`;
  return `{${headText(task, code)},"data":${data},${result}}`;
}

/** A task as listings show it: without `input`, `result` and `error`. */
export function summaryJson(task: TaskSummary): string {
  return `{${headText(task, task.statusCode)},"data":${task.dataText}}`;
}

function headText(task: TaskSummary, code: StatusCode): string {
  const message = task.statusMessage ?? statusMessage(code);
  return (
    `"id":"${task.id}","status_code":${code},"status_message":${JSON.stringify(message)}` +
    `,"state":"${task.state}","type":${stringJson(task.type)}` +
    `,"created_at":${timeJson(task.createdAt)},"started_at":${timeJson(task.startedAt)}` +
    `,"completed_at":${timeJson(task.completedAt)},"expires_at":${timeJson(task.expiresAt)}` +
    `,"runs":${task.runs},"progress":null`
  );
}

// `dataText` is an object's JSON text without `input`; the input goes in as its last member.
function dataJson(dataText: string, inputText: string | null): string {
  if (inputText === null) return dataText;
  const comma = dataText === "{}" ? "" : ",";
  return `${dataText.slice(0, -1)}${comma}"input":${inputText}}`;
}
